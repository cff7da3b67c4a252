// Inner products of 32 summary rows with the queries of one KV head's group.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_TILE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_TILE_CUH_

#include <type_traits>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/select_row.cuh"
#include "backend/cuda/device/select_scores.cuh"

namespace winnow::device {

constexpr unsigned kAllLanes = 0xffffffffu;

// kNum numbers of a summary row, loaded at once.
template <typename T, int kNum>
struct alignas(sizeof(T) * kNum) Piece {
  T values[kNum];
};

// Sums each of kNum values over groups of kLanes lanes, in one order whatever
// the value and the lane: a tree. Lane l returns value l % kNum.
template <int kNum, int kLanes>
__device__ inline float SumOverLanes(float (&values)[kNum], int lane) {
  if constexpr (kLanes == 1) {
    return values[0];
  } else if constexpr (kNum < kLanes) {
    constexpr int kStep = kLanes / 2;
#pragma unroll
    for (int i = 0; i < kNum; ++i) {
      values[i] += __shfl_xor_sync(kAllLanes, values[i], kStep);
    }
    return SumOverLanes<kNum, kStep>(values, lane);
  } else {
    // A lane gives away the half of the values that it drops.
    constexpr int kStep = kNum / 2;
    const bool upper = (lane & kStep) != 0;
    float kept[kStep];
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      const float given = upper ? values[i] : values[i + kStep];
      kept[i] = (upper ? values[i + kStep] : values[i]) +
                __shfl_xor_sync(kAllLanes, given, kStep);
    }
    return SumOverLanes<kStep, kStep>(kept, lane);
  }
}

// How a warp's lanes share the work: kLanes lanes a summary row, kElements
// numbers a load, kHeads q heads at a time, each of as many rows as make a
// value for every lane (or eight, which is enough loads in flight).
template <typename Row_, int kElements_, int kLanes_, int kHeads_>
struct TileShape {
  using Row = Row_;
  static constexpr int kElements = kElements_;
  static constexpr int kLanes = kLanes_;
  static constexpr int kHeads = kHeads_;
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kRows = kLanes / kHeads < 8 ? kLanes / kHeads : 8;
  static constexpr int kRowsAtOnce = kRows * kGroups;
  // A load's numbers come with queries by as many at a time.
  static constexpr int kPart = kElements < 4 ? kElements : 4;
  static constexpr int kParts = kElements / kPart;
  static_assert(kHeads <= kLanes && kHeads * kRows <= kLanes &&
                kTileSlots % kRowsAtOnce == 0);
};

// Queries in shared memory, as lanes read them without conflicts.
// f32 [heads, parts of a load, pieces, numbers of a part]
template <typename Shape>
__device__ inline int QueryIndex(int head, int element, int num_pieces) {
  constexpr int kPart = Shape::kPart;
  const int piece = element / Shape::kElements;
  const int part = element % Shape::kElements / kPart;
  return ((head * Shape::kParts + part) * num_pieces + piece) * kPart +
         element % kPart;
}

// acc[head][row] += a piece of each row times the same of each query.
template <typename Shape>
__device__ inline void TakeInPieces(
    const Piece<typename Shape::Row, Shape::kElements> (&pieces)[Shape::kRows],
    const float* q,  // f32 [kHeads, parts, pieces, numbers] from this piece on
    int num_pieces, float (&acc)[Shape::kHeads * Shape::kRows]) {
  constexpr int kPart = Shape::kPart;
  using Queries = Piece<float, kPart>;
#pragma unroll
  for (int part = 0; part < Shape::kParts; ++part) {
#pragma unroll
    for (int head = 0; head < Shape::kHeads; ++head) {
      const Queries of_head = *reinterpret_cast<const Queries*>(
          q + (head * Shape::kParts + part) * num_pieces * kPart);
#pragma unroll
      for (int row = 0; row < Shape::kRows; ++row) {
#pragma unroll
        for (int i = 0; i < kPart; ++i) {
          acc[head * Shape::kRows + row] = fmaf(
              of_head.values[i], ToFloat(pieces[row].values[part * kPart + i]),
              acc[head * Shape::kRows + row]);
        }
      }
    }
  }
}

// The slots of a tile: [first, first + 32), of which [begin, end) have rows.
// REQUIRES: begin < end.
struct TileSlots {
  int first;
  int begin, end;
};

// The queries of a group.
struct TileQueries {
  const float* q;  // f32 [heads up to kHeads, width], by QueryIndex
  int num_heads;
  int num_pieces;  // of a row
};

// Scores a tile, by a warp; at(slot): a row's address. Slots that have no row
// are not read; a score is written for each all the same.
template <typename Shape, typename AddressOf>
__device__ inline void ScoreTile(
    const AddressOf& at, const TileSlots& slots, const TileQueries& queries,
    float* scores) {  // f32 [heads up to kHeads, 32]
  using Loaded = Piece<typename Shape::Row, Shape::kElements>;
  const int lane = threadIdx.x % 32;
  const int in_row = lane % Shape::kLanes;
  const int group = lane / Shape::kLanes;
  for (int head = 0; head < queries.num_heads; head += Shape::kHeads) {
    for (int run = 0; run < kTileSlots; run += Shape::kRowsAtOnce) {
      const int first_row = run + group * Shape::kRows;
      const Loaded* rows[Shape::kRows];
#pragma unroll
      for (int i = 0; i < Shape::kRows; ++i) {
        const int slot =
            min(max(slots.first + first_row + i, slots.begin), slots.end - 1);
        rows[i] = reinterpret_cast<const Loaded*>(at(slot));
      }
      float acc[Shape::kHeads * Shape::kRows] = {};
      for (int piece = in_row; piece < queries.num_pieces;
           piece += Shape::kLanes) {
        Loaded pieces[Shape::kRows];
#pragma unroll
        for (int i = 0; i < Shape::kRows; ++i) pieces[i] = rows[i][piece];
        TakeInPieces<Shape>(
            pieces,
            queries.q + QueryIndex<Shape>(head, piece * Shape::kElements,
                                          queries.num_pieces),
            queries.num_pieces, acc);
      }
      constexpr int kNum = Shape::kHeads * Shape::kRows;
      const float score = SumOverLanes<kNum, Shape::kLanes>(acc, lane);
      if (in_row < kNum) {
        scores[(head + in_row / Shape::kRows) * kTileSlots + first_row +
               in_row % Shape::kRows] = score;
      }
    }
  }
}

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

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_TILE_CUH_
