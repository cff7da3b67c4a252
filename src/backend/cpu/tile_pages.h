// TilePages: finds the keys and values of a tile in their pages.
#ifndef WINNOW_BACKEND_CPU_TILE_PAGES_H_
#define WINNOW_BACKEND_CPU_TILE_PAGES_H_

#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_workspace.h"
#include "backend/cpu/step_rows.h"

namespace winnow {

// Which keys of a request some rows see: each its own [first, last], both
// ascending from the first row to the last.
struct VisibleKeys {
  int64_t first_of_first = 0, first_of_last = 0;
  int64_t last_of_first = 0, last_of_last = 0;
};

// The positions that a row at `position` sees begin here.
inline int64_t FirstVisible(int64_t position, int window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

// Yields the tiles of one request and KV head. Owns nothing: pages that the
// kernel cannot read as they are (`widen`) are widened into scratch, where
// they stay until the next tile.
class TilePages {
 public:
  TilePages(const LayerCache& cache, int request, int kv_head,
            WidenKernel widen, ScratchCutter& scratch);

  // Tile `tile` for rows that see `visible`. REQUIRES: they see some of it.
  TileKeys Tile(int64_t tile, const VisibleKeys& visible) const;

 private:
  const LayerCache& cache_;
  const int request_;
  const int kv_head_;
  const WidenKernel widen_;  // null: the kernel reads the stored type
  float* wide_k_ = nullptr;  // [128, k_dim]
  float* wide_v_ = nullptr;  // [128, v_dim]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_TILE_PAGES_H_
