#include "backend/cpu/tile_pages.h"

#include <algorithm>

namespace winnow {

static_assert(kTilePageTokens == kPageTokens);

TilePages::TilePages(const LayerCache& cache, int request, int kv_head,
                     WidenKernel widen, ScratchCutter& scratch)
    : cache_(cache), request_(request), kv_head_(kv_head), widen_(widen) {
  if (widen == nullptr) return;
  wide_k_ = scratch.Take<float>(int64_t{kTileKeys} * cache.format.k_dim);
  if (cache.format.v_in_k) return;
  wide_v_ = scratch.Take<float>(int64_t{kTileKeys} * cache.format.v_dim);
}

TileKeys TilePages::Tile(int64_t tile, const VisibleKeys& visible) const {
  const SliceFormat& format = cache_.format;
  const int64_t base = tile * kTileKeys;
  TileKeys keys;
  keys.k_dim = format.k_dim;
  keys.v_dim = format.v_dim;
  keys.k_stride = format.k_dim;
  keys.v_stride = format.v_in_k ? format.k_dim : format.v_dim;
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
    const auto p = static_cast<size_t>(page);
    const std::byte* slice = cache_.Slice(
        StepRows::Extent(cache_, request_, base / kPageTokens + page),
        kv_head_);
    keys.k[p] = slice;
    keys.v[p] = format.v_in_k ? slice : slice + format.v_offset_bytes();
    keys.next_k[p] = keys.k[p];
    keys.next_v[p] = keys.v[p];
    if (widen_ == nullptr) continue;
    const auto widen = [&](const std::byte*& stored, int dim, float* wide) {
      float* to = wide + int64_t{page} * kPageTokens * dim;
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
  return keys;
}

}  // namespace winnow
