// WeightQueue: weights on their way to the warp that multiplies them.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_LINEAR_WEIGHT_QUEUE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_LINEAR_WEIGHT_QUEUE_CUH_

#include "backend/cuda/device/attend/tile_run.cuh"
#include "backend/cuda/device/runtime/async_copy.cuh"
#include "backend/cuda/device/runtime/cache_policy.cuh"

namespace winnow::device {

inline constexpr int kFewRowsWarps = 8;  // of a block
inline constexpr int kTileOutputs = 16;  // of one A fragment
inline constexpr int kChunkInputs = 64;  // that a warp takes at a time
inline constexpr int kHalfInputs = 32;   // of a chunk: two mmas
inline constexpr int kChunkPieces = 8;   // of 16 bytes, in a row of a chunk
inline constexpr int kChunkStride = kFewRowsWarps * kChunkInputs;

// [outputs, inputs] weights, of which a block has a run of tiles of outputs,
// and a warp every eighth chunk of a tile's inputs. Of a gate and an up that
// meet, a fragment's first eight outputs are the gate's and its last eight the
// same outputs of the up.
template <typename T>
struct WeightTiles {
  const T* weights;
  const T* up;     // of the same shape, or null
  int64_t stride;  // between outputs
  int inputs, outputs;
};

// Owns kStages chunks of shared memory and keeps kStages - 1 of them on their
// way, through the ends of passes; a warp waits for no other. One copy of a
// warp takes 128 bytes of four rows: with 64 bytes of eight the same kernel
// read at 0.9 of the rate (H200, Llama-3.1-8B's products of one row: 125.6 us a
// layer against 113 with two blocks a multiprocessor, 121.8 against 113).
template <typename T, int kMostTiles, int kStages, bool kGates>
class WeightQueue {
 public:
  static constexpr int kPieces = 4;                 // of 16 bytes a lane
  static constexpr int kBytes = kPieces * 32 * 16;  // of a chunk
  static constexpr int kWarpBytes = kStages * kBytes;
  static constexpr int kOutputs = kTileOutputs / (kGates ? 2 : 1);

  // `memory`: kWarpBytes of the warp's own.
  __device__ WeightQueue(const WeightTiles<T>& of, const TileRun& run,
                         std::byte* memory)
      : of_(of),
        lane_(static_cast<int>(threadIdx.x) % 32),
        memory_(memory),
        run_(run) {
    warp_first_ = static_cast<int>(threadIdx.x) / 32 * kChunkInputs;
    first_ = warp_first_;
    if (warp_first_ >= of.inputs) run_.left = 0;  // Nothing is this warp's.
    pass_tiles_ = run_.template PassTiles<kMostTiles>();
  }

  // Starts to fetch the next chunk, if there is one: the same inputs of all
  // tiles of a pass, then the next inputs.
  __device__ void Load() {
    if (pass_tiles_ > 0) {
      const int input = first_ + lane_ % kChunkPieces * 8;
      const int output = (run_.first + tile_) * kOutputs + lane_ / kChunkPieces;
      const int64_t at = output * of_.stride + input;
      const uint32_t stage = SharedAddress(memory_ + load_stage_ * kBytes);
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int row = RowOf(i);
        const bool is_there = output + row < of_.outputs && input < of_.inputs;
        const T* from = kGates && i / 2 % 2 == 1 ? of_.up : of_.weights;
        CopyAsync16(stage + 16 * Place(lane_ / kChunkPieces + i * kCopyRows,
                                       lane_ % kChunkPieces),
                    is_there ? from + at + row * of_.stride : from,
                    is_there ? 16 : 0, policy_);
      }
      if (++tile_ == pass_tiles_) {
        tile_ = 0;
        first_ += kChunkStride;
      }
      if (first_ >= of_.inputs) {
        first_ = warp_first_;
        run_.Take(pass_tiles_);
        pass_tiles_ = run_.template PassTiles<kMostTiles>();
      }
    }
    CommitCopies();
    load_stage_ = load_stage_ + 1 == kStages ? 0 : load_stage_ + 1;
  }

  // The oldest chunk. Lane (g, t) gets inputs [32 h + 8 t, + 8) of weight row
  // g + 8 r as piece 2 r + h, r and h from 0. REQUIRES: as many Fetches as
  // Takes, and kStages - 1 more.
  __device__ void Take(uint4 (&pieces)[kPieces]) {
    WaitForCopies<kStages - 2>();
    __syncwarp();
    const auto* from =
        reinterpret_cast<const uint4*>(memory_ + take_stage_ * kBytes);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      pieces[i] = from[Place(i / 2 * 8 + lane_ / 4, i % 2 * 4 + lane_ % 4)];
    }
    take_stage_ = take_stage_ + 1 == kStages ? 0 : take_stage_ + 1;
  }

 private:
  static constexpr int kCopyRows = 32 / kChunkPieces;  // of a warp's copy

  // Which row of a matrix copy `i` begins with, from the tile's first on.
  __device__ static constexpr int RowOf(int i) {
    return kGates ? (i / 4 * 2 + i % 2) * kCopyRows : i * kCopyRows;
  }

  // Where piece `column` of a row stands: eight lanes that copy, or that take,
  // at a time use all banks.
  __device__ static int Place(int row, int column) {
    return row * kChunkPieces + (column ^ row % 2 * 4);
  }

  const WeightTiles<T> of_;
  const int lane_;
  // A step's weights pass through L2 between two uses of what else it reads:
  // code, tables, lists, summaries.
  const CachePolicy policy_ = EvictFirst();
  std::byte* memory_;
  TileRun run_;                // from the pass on that is fetched
  int pass_tiles_, tile_ = 0;  // of that pass, and which of them is next
  int warp_first_, first_;     // inputs of the next Fetch
  int load_stage_ = 0, take_stage_ = 0;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_LINEAR_WEIGHT_QUEUE_CUH_
