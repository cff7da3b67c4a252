#include "backend/cpu/attend/tile_pages.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/contract/token_runs.h"
#include "backend/cpu/isa/prefetch_lines.h"

namespace winnow {

static_assert(kTilePageTokens == kPageTokens &&
              kPageHalves * kHalfTokens == kPageTokens);

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

TilePages::TilePages(const Source& source, ScratchCutter& scratch)
    : cache_(source.cache),
      kv_blocks_(source.cache.page_table.Row(source.request)),
      request_(source.request),
      kv_head_(source.kv_head),
      widen_(source.widen),
      half_k_bytes_(int64_t{kHalfTokens} * cache_.format.k_dim *
                    DtypeBytes(cache_.format.k)),
      half_v_bytes_(int64_t{kHalfTokens} * cache_.format.v_dim *
                    DtypeBytes(cache_.format.v)),
      v_offset_bytes_(cache_.format.v_offset_bytes) {
  if (source.slots != nullptr) {
    slots_.emplace(cache_, *source.slots, request_, kv_head_);
  }
  if (widen_ == nullptr && !HalvesLieApart(cache_, source.slots)) return;
  const HeadBlockFormat& format = cache_.format;
  scratch_k_ = scratch.Take<std::byte>(kTileKeys * ScratchBytes(format.k_dim));
  if (format.v_in_k) return;
  scratch_v_ = scratch.Take<std::byte>(kTileKeys * ScratchBytes(format.v_dim));
}

void TilePages::SetShape(TileKeys& keys) const {
  const HeadBlockFormat& format = cache_.format;
  keys.k_dim = format.k_dim;
  keys.v_dim = format.v_dim;
  keys.k_stride = format.k_dim;
  keys.v_stride = format.v_in_k ? format.k_dim : format.v_dim;
}

const std::byte* TilePages::HeadBlockOf(int64_t page) const {
  CHECK(page < cache_.max_pages, "page={} max_pages={}", page,
        cache_.max_pages);
  const uint32_t kv_block = kv_blocks_[page];
  if (kv_block != kNotWhole) return cache_.Slice(kv_block, kv_head_);
  if (PiecesAPage(cache_.format) > 1) return nullptr;
  return FindPiece(cache_, slots_ ? &*slots_ : nullptr, request_, kv_head_,
                   page, 0)
      .slice;
}

void TilePages::CopyTokens(const std::byte* stored, int64_t count, int dim,
                           std::byte* to) const {
  if (widen_ == nullptr) {
    std::memcpy(to, stored, static_cast<size_t>(count * ScratchBytes(dim)));
    return;
  }
  widen_(reinterpret_cast<const uint16_t*>(stored), count * dim,
         reinterpret_cast<float*>(to));
}

// Pieces of which no token is read become zero: a kernel may weigh their values
// with nothing.
void TilePages::GatherHalf(int64_t page, int half, int of_tile, uint32_t tokens,
                           TileKeys& keys) const {
  const HeadBlockFormat& format = cache_.format;
  const int count = format.slot_tokens, a_half = kHalfTokens / count;
  const auto gather = [&](const PiecePlace* from, int64_t offset, int dim,
                          std::byte* to) {
    const int64_t stored_bytes = int64_t{count} * dim * DtypeBytes(format.k);
    if (from == nullptr) {
      std::memset(to, 0, static_cast<size_t>(count * ScratchBytes(dim)));
      return;
    }
    CopyTokens(from->slice + offset + from->index * stored_bytes, count, dim,
               to);
  };
  std::byte* k =
      scratch_k_ + of_tile * kHalfTokens * ScratchBytes(format.k_dim);
  std::byte* v =
      scratch_v_ + of_tile * kHalfTokens * ScratchBytes(format.v_dim);
  for (int i = 0; i < a_half; ++i) {
    PiecePlace place;
    const PiecePlace* from = nullptr;
    if ((tokens >> (i * count) & ((1u << count) - 1)) != 0) {
      place = slots_->Find(page, half * a_half + i);
      from = &place;
    }
    gather(from, 0, format.k_dim, k + i * count * ScratchBytes(format.k_dim));
    if (format.v_in_k) continue;
    gather(from, format.v_offset_bytes, format.v_dim,
           v + i * count * ScratchBytes(format.v_dim));
  }
  keys.k[of_tile] = k;
  keys.v[of_tile] = format.v_in_k ? k : v;
}

void TilePages::SetHalf(const std::byte* k, const std::byte* v, int of_tile,
                        TileKeys& keys) const {
  const HeadBlockFormat& format = cache_.format;
  if (widen_ != nullptr) {
    const auto widen = [&](const std::byte* stored, int dim, std::byte* to) {
      to += of_tile * kHalfTokens * ScratchBytes(dim);
      CopyTokens(stored, kHalfTokens, dim, to);
      return to;
    };
    k = widen(k, format.k_dim, scratch_k_);
    if (!format.v_in_k) v = widen(v, format.v_dim, scratch_v_);
  }
  keys.k[of_tile] = k;
  keys.v[of_tile] = format.v_in_k ? k : v;
}

void TilePages::AddHalf(int64_t page, int half, int number, uint32_t tokens,
                        TileKeys& keys) const {
  const HeadBlockFormat& format = cache_.format;
  const int of_tile = number * kPageHalves + half;
  if (format.slot_tokens < kHalfTokens) {
    GatherHalf(page, half, of_tile, tokens, keys);
    return;
  }
  const PiecePlace place = slots_->Find(page, half);
  SetHalf(place.slice + place.index * half_k_bytes_,
          place.slice + v_offset_bytes_ + place.index * half_v_bytes_, of_tile,
          keys);
}

void TilePages::AddPage(int64_t page, int number, uint32_t tokens,
                        TileKeys& keys) const {
  if (const std::byte* slice = HeadBlockOf(page)) {
    for (int half = 0; half < kPageHalves; ++half) {
      SetHalf(slice + half * half_k_bytes_,
              slice + v_offset_bytes_ + half * half_v_bytes_,
              number * kPageHalves + half, keys);
    }
    return;
  }
  CHECK(slots_.has_value(), "request={} page={} is not whole", request_, page);
  for (int half = 0; half < kPageHalves; ++half) {
    const uint32_t of_half = tokens >> (half * kHalfTokens) & 0xffff;
    // Of the other half no kernel reads anything.
    if (of_half != 0) AddHalf(page, half, number, of_half, keys);
  }
}

void TilePages::FindTile(int64_t tile, const VisibleKeys& visible,
                         TileKeys& keys) const {
  const int64_t base = tile * kTileKeys;
  SetShape(keys);
  keys.picked = false;
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
    AddPage(base / kPageTokens + page, page, ~uint32_t{0}, keys);
  }
}

void TilePages::FindPicked(std::span<const Pick> picks, int64_t first,
                           int64_t last, TileKeys& keys) const {
  CHECK(picks.size() <= kTilePages, "picks={}", picks.size());
  SetShape(keys);
  keys.first_position = 0;
  keys.masked = false;
  std::ranges::fill(keys.tokens, 0u);
  bool whole = true;
  for (size_t i = 0; i < picks.size(); ++i) {
    const int64_t page = picks[i].page;
    keys.tokens[i] = picks[i].tokens & TokensIn(page, first, last);
    whole = whole && keys.tokens[i] == ~uint32_t{0};
    AddPage(page, static_cast<int>(i), keys.tokens[i], keys);
  }
  // A unit of whole pages is a dense one. Of a part of a page a kernel must
  // not touch what lies behind the row, which nobody may have written yet.
  keys.picked = !whole;
  SetEnds(keys.tokens, keys);
}

void TilePages::PrefetchPicked(std::span<const Pick> picks) const {
  const int64_t k_bytes = half_k_bytes_ / kHalfTokens;
  const int64_t v_bytes =
      cache_.format.v_in_k ? 0 : half_v_bytes_ / kHalfTokens;
  for (const Pick& pick : picks) {
    const std::byte* slice = HeadBlockOf(pick.page);
    if (slice == nullptr) continue;
    ForEachRun(pick.tokens, [&](int first, int count) {
      PrefetchToRead<CacheLevel::kSecond>(slice + first * k_bytes,
                                          count * k_bytes);
      PrefetchToRead<CacheLevel::kSecond>(
          slice + v_offset_bytes_ + first * v_bytes, count * v_bytes);
    });
  }
}

TileKeys TilePages::Masked(int64_t tile, const uint32_t (&any)[kTilePages],
                           const uint32_t (&all)[kTilePages]) const {
  TileKeys keys;
  SetShape(keys);
  keys.first_position = static_cast<int32_t>(tile * kTileKeys);
  SetEnds(any, keys);
  CHECK(keys.begin < keys.end, "tile={} begin={} end={}", tile, keys.begin,
        keys.end);
  for (int page = keys.begin / kPageTokens; page * kPageTokens < keys.end;
       ++page) {
    AddPage(tile * kTilePages + page, page, any[page], keys);
    keys.masked =
        keys.masked || all[page] != TokensIn(page, keys.begin, keys.end - 1);
  }
  return keys;
}

}  // namespace winnow
