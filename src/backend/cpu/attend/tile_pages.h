// TilePages: finds the keys and values of a tile in their pages.
#ifndef WINNOW_BACKEND_CPU_ATTEND_TILE_PAGES_H_
#define WINNOW_BACKEND_CPU_ATTEND_TILE_PAGES_H_

#include <optional>
#include <span>

#include "backend/contract/picks.h"
#include "backend/cpu/attend/attend_workspace.h"
#include "backend/cpu/attend/slot_head.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/step_rows.h"

namespace winnow {

// Which keys of a request some rows see: each its own [first, last], both
// ascending from the first row to the last.
struct VisibleKeys {
  int64_t first_of_first = 0, first_of_last = 0;
  int64_t last_of_first = 0, last_of_last = 0;
};

// Those tokens of page `page` that are in [first, last], a bit each.
inline uint32_t TokensIn(int64_t page, int64_t first, int64_t last) {
  const int64_t base = page * kTilePageTokens;
  if (last < base || first >= base + kTilePageTokens) return 0;
  const int64_t begin = first > base ? first - base : 0;
  const int64_t behind = base + kTilePageTokens - 1 - last;
  return (~uint32_t{0} << begin) & (~uint32_t{0} >> (behind > 0 ? behind : 0));
}

// The positions that a row at `position` sees begin here.
inline int64_t FirstVisible(int64_t position, int window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

// Whether half a page's tokens may lie apart, so that they are gathered before
// a kernel reads them.
inline bool HalvesLieApart(const LayerCache& cache, const SlotTable* slots) {
  return slots != nullptr && cache.format.slot_tokens < kHalfTokens;
}

// Yields the tiles of one request and KV head. Owns nothing: pages that the
// kernel cannot read as they are (`widen`), or that lie apart, are copied into
// scratch, where they stay until the next tile.
class TilePages {
 public:
  struct Source {
    const LayerCache& cache;
    const SlotTable* slots;  // of pages that are not whole; or null
    int request;
    int kv_head;
    WidenKernel widen;  // null: the kernel reads the stored type
  };
  TilePages(const Source& source, ScratchCutter& scratch);

  // Tile `tile` for rows that see `visible`. REQUIRES: they see some of it.
  TileKeys Tile(int64_t tile, const VisibleKeys& visible) const {
    TileKeys keys;
    FindTile(tile, visible, keys);
    return keys;
  }
  // The same where `keys` has been a tile of these pages, or none: a decode has
  // little work a tile beside which a copy would not show.
  void FindTile(int64_t tile, const VisibleKeys& visible, TileKeys& keys) const;

  // Likewise at most four picks, for rows that see all their tokens in [first,
  // last].
  void FindPicked(std::span<const Pick> picks, int64_t first, int64_t last,
                  TileKeys& keys) const;

  // Fetches the keys and values of picks into the second cache level, where a
  // page's tokens stand together.
  void PrefetchPicked(std::span<const Pick> picks) const;

  // Tile `tile`, of which rows see tokens of its four pages: `any` the tokens
  // that one of them sees, `all` those that all see. REQUIRES: `any` is not
  // empty.
  TileKeys Masked(int64_t tile, const uint32_t (&any)[kTilePages],
                  const uint32_t (&all)[kTilePages]) const;

 private:
  void SetShape(TileKeys& keys) const;
  // Page `page` of the request as number `number` of a tile, of which `tokens`
  // are read.
  void AddPage(int64_t page, int number, uint32_t tokens, TileKeys& keys) const;
  // The slice of a page whose tokens stand together; null where they lie apart.
  const std::byte* HeadBlockOf(int64_t page) const;
  // Half `half` of a page whose halves may lie apart.
  void AddHalf(int64_t page, int half, int number, uint32_t tokens,
               TileKeys& keys) const;
  // Where a kernel finds half a page that is stored at `k` and `v`.
  void SetHalf(const std::byte* k, const std::byte* v, int of_tile,
               TileKeys& keys) const;
  // Copies `count` tokens' numbers of the stored type to `to`, widened where
  // the kernel wants it.
  void CopyTokens(const std::byte* stored, int64_t count, int dim,
                  std::byte* to) const;
  void GatherHalf(int64_t page, int half, int of_tile, uint32_t tokens,
                  TileKeys& keys) const;
  // Of a token's key or value in scratch.
  int64_t ScratchBytes(int dim) const {
    return int64_t{dim} * (widen_ == nullptr ? DtypeBytes(cache_.format.k) : 4);
  }

  const LayerCache& cache_;
  const uint32_t* const kv_blocks_;  // of the request's pages
  const int request_;
  const int kv_head_;
  const WidenKernel widen_;  // null: the kernel reads the stored type
  // Of half a page as it is stored, and where V begins behind K.
  const int64_t half_k_bytes_, half_v_bytes_, v_offset_bytes_;
  std::optional<SlotHead> slots_;
  std::byte* scratch_k_ = nullptr;  // [128, k_dim]
  std::byte* scratch_v_ = nullptr;  // [128, v_dim]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_TILE_PAGES_H_
