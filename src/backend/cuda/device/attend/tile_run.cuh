// TileRun: the tiles of outputs that one taker of a product has.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_TILE_RUN_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_TILE_RUN_CUH_

#include <cuda_runtime.h>

namespace winnow::device {

// Tiles [first, first + left), which are taken in passes: each chunk of x is
// loaded once a pass, and multiplied by all its tiles.
struct TileRun {
  int first, left;

  // An even share of all tiles.
  __device__ static TileRun Share(int num_tiles, int taker, int num_takers) {
    const int quotient = num_tiles / num_takers, rest = num_tiles % num_takers;
    return {taker * quotient + min(taker, rest),
            quotient + (taker < rest ? 1 : 0)};
  }
  // How many tiles the next pass has: of as few passes of at most kMost as
  // there can be, all have about as many. 0 behind the last.
  template <int kMost>
  __device__ int PassTiles() const {
    const int passes = (left + kMost - 1) / kMost;
    return left == 0 ? 0 : (left + passes - 1) / passes;
  }
  __device__ void Take(int num_tiles) {
    first += num_tiles;
    left -= num_tiles;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_TILE_RUN_CUH_
