#include "backend/cpu/tile_pages.h"

#include <algorithm>
#include <bit>

namespace winnow {

static_assert(kTilePageTokens == kPageTokens);

namespace {

// The keys that a kernel takes in: from the first token that is set, in steps
// of four, to behind the last one.
void SetEnds(const uint32_t (&tokens)[kTilePages], TileKeys& keys) {
  keys.begin = kTileKeys;
  keys.end = 0;
  for (int page = 0; page < kTilePages; ++page) {
    const uint32_t of_page = tokens[page];
    if (of_page == 0) continue;
    const int base = page * kPageTokens;
    keys.begin = std::min(keys.begin, base + std::countr_zero(of_page) / 4 * 4);
    keys.end = base + static_cast<int>(std::bit_width(of_page));
  }
  // Without a token there is nothing to take in.
  keys.begin = std::min(keys.begin, keys.end);
}

}  // namespace

TilePages::TilePages(const LayerCache& cache, int request, int kv_head,
                     WidenKernel widen, ScratchCutter& scratch)
    : cache_(cache), request_(request), kv_head_(kv_head), widen_(widen) {
  if (widen == nullptr) return;
  wide_k_ = scratch.Take<float>(int64_t{kTileKeys} * cache.format.k_dim);
  if (cache.format.v_in_k) return;
  wide_v_ = scratch.Take<float>(int64_t{kTileKeys} * cache.format.v_dim);
}

TileKeys TilePages::Empty() const {
  const SliceFormat& format = cache_.format;
  TileKeys keys;
  keys.k_dim = format.k_dim;
  keys.v_dim = format.v_dim;
  keys.k_stride = format.k_dim;
  keys.v_stride = format.v_in_k ? format.k_dim : format.v_dim;
  return keys;
}

void TilePages::AddPage(int64_t page, int number, TileKeys& keys) const {
  const SliceFormat& format = cache_.format;
  const auto p = static_cast<size_t>(number);
  const std::byte* slice =
      cache_.Slice(StepRows::Extent(cache_, request_, page), kv_head_);
  keys.k[p] = slice;
  keys.v[p] = format.v_in_k ? slice : slice + format.v_offset_bytes();
  keys.next_k[p] = keys.k[p];
  keys.next_v[p] = keys.v[p];
  if (widen_ == nullptr) return;
  const auto widen = [&](const std::byte*& stored, int dim, float* wide) {
    float* to = wide + int64_t{number} * kPageTokens * dim;
    widen_(reinterpret_cast<const uint16_t*>(stored),
           int64_t{kPageTokens} * dim, to);
    stored = reinterpret_cast<const std::byte*>(to);
  };
  widen(keys.k[p], format.k_dim, wide_k_);
  if (format.v_in_k) {
    keys.v[p] = keys.k[p];
  } else {
    widen(keys.v[p], format.v_dim, wide_v_);
  }
}

TileKeys TilePages::Tile(int64_t tile, const VisibleKeys& visible) const {
  const int64_t base = tile * kTileKeys;
  TileKeys keys = Empty();
  keys.first_position = static_cast<int32_t>(base);
  keys.begin = static_cast<int>(
      std::max<int64_t>(0, visible.first_of_first - base) / 4 * 4);
  keys.end = static_cast<int>(
      std::min<int64_t>(kTileKeys, visible.last_of_last + 1 - base));
  CHECK(keys.begin < keys.end, "tile={} begin={} end={}", tile, keys.begin,
        keys.end);
  keys.masked = visible.first_of_last > base + keys.begin ||
                visible.last_of_first < base + keys.end - 1;
  for (int page = keys.begin / kPageTokens; page * kPageTokens < keys.end;
       ++page) {
    AddPage(base / kPageTokens + page, page, keys);
  }
  return keys;
}

TileKeys TilePages::Picked(std::span<const Pick> picks, int64_t first,
                           int64_t last) const {
  TileKeys keys = Empty();
  bool whole = true;
  for (size_t i = 0; i < picks.size(); ++i) {
    const int64_t page = picks[i].page;
    keys.tokens[i] = picks[i].tokens & TokensIn(page, first, last);
    whole = whole && keys.tokens[i] == ~uint32_t{0};
    AddPage(page, static_cast<int>(i), keys);
  }
  // A unit of whole pages is a dense one. Of a part of a page a kernel must
  // not touch what lies behind the row, which nobody may have written yet.
  keys.picked = !whole;
  SetEnds(keys.tokens, keys);
  return keys;
}

TileKeys TilePages::Masked(int64_t tile, const uint32_t (&any)[kTilePages],
                           const uint32_t (&all)[kTilePages]) const {
  TileKeys keys = Empty();
  keys.first_position = static_cast<int32_t>(tile * kTileKeys);
  SetEnds(any, keys);
  CHECK(keys.begin < keys.end, "tile={} begin={} end={}", tile, keys.begin,
        keys.end);
  for (int page = keys.begin / kPageTokens; page * kPageTokens < keys.end;
       ++page) {
    AddPage(tile * kTilePages + page, page, keys);
    keys.masked =
        keys.masked || all[page] != TokensIn(page, keys.begin, keys.end - 1);
  }
  return keys;
}

}  // namespace winnow
