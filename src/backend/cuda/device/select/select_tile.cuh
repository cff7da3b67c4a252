// A tile: 32 slots of one level, whose scores a warp computes.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_TILE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_TILE_CUH_

#include "backend/cuda/device/select/select_row.cuh"
#include "backend/cuda/device/select/select_scores.cuh"

namespace winnow::device {

constexpr unsigned kAllLanes = 0xffffffffu;
// Floats from one head's scores of a tile to the next one's, in shared memory:
// eight slots of four heads are in different banks.
constexpr int kTileStride = kTileSlots + 4;

// Where the rows of one level of a request and KV head are.
struct LevelRows {
  const Pages& pages;
  const Summaries& summaries;
  const SummaryLevel& of;
  int level;
  int request, kv_head;

  // The 32 slots of a tile are one run of bytes.
  __device__ bool Adjacent() const {
    return of.kind == SummaryKind::kKeys || 1 << of.rows_shift >= kTileSlots;
  }
  __device__ const std::byte* Slot(int slot) const {
    if (of.kind == SummaryKind::kKeys) {
      return pages.Slice(request, slot / kTileSlots, kv_head) +
             slot % kTileSlots * of.row_bytes;
    }
    return summaries.Slot(request, kv_head, level, slot);
  }
};

// Slots [first, first + 32), of which [begin, end) have rows: others are not
// read. REQUIRES: begin < end, first < end.
struct TileRows {
  static constexpr int kRows = kTileSlots;
  const LevelRows& rows;
  const std::byte* first_row;  // rows.Slot(first)
  int first;
  int begin, end;

  // Of the tile's row `i`, or the nearest that there is.
  __device__ const std::byte* Row(int i) const {
    const int slot = min(max(first + i, begin), end - 1);
    return rows.Adjacent() ? first_row + (slot - first) * rows.of.row_bytes
                           : rows.Slot(slot);
  }
};

// The queries of a KV head's group, in shared memory.
struct TileQueries {
  const void* q;  // [heads, width], laid out by whoever scores
  int num_heads;
  int width;
};

// The greatest of scale * score over a warp's lanes that are valid, and the sum
// of the exponentials over it: a part of a log-sum-exp.
__device__ inline float2 PartOfLse(float score, bool valid, float scale) {
  const float exponent = valid ? score * scale : -INFINITY;
  float greatest = exponent;
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    greatest = fmaxf(greatest, __shfl_xor_sync(kAllLanes, greatest, step));
  }
  float sum = valid ? expf(exponent - greatest) : 0.0f;
#pragma unroll
  for (int step = 16; step >= 1; step /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, step);
  }
  return {greatest, sum};
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_TILE_CUH_
