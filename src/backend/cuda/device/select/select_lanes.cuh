// A tile's scores by lanes over channels: any types and widths.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_LANES_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_LANES_CUH_

#include <type_traits>

#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/float8.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/device/select/select_tile.cuh"

namespace winnow::device {

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
// value for every lane, or as registers hold.
template <typename Row_, int kElements_, int kLanes_, int kHeads_>
struct LaneShape {
  using Row = Row_;
  static constexpr int kElements = kElements_;
  static constexpr int kLanes = kLanes_;
  static constexpr int kHeads = kHeads_;
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kMaxRows = kHeads == 1 || kElements == 8 ? 4 : 8;
  static constexpr int kRows =
      kLanes / kHeads < kMaxRows ? kLanes / kHeads : kMaxRows;
  static constexpr int kRowsAtOnce = kRows * kGroups;
  // A load's numbers come with queries by as many at a time.
  static constexpr int kPart = kElements < 4 ? kElements : 4;
  static constexpr int kParts = kElements / kPart;
  static_assert(kHeads <= kLanes && kHeads * kRows <= kLanes &&
                kTileSlots % kRowsAtOnce == 0);
};

// The sums of kRows rows with kHeads queries: a lane's share of them.
template <typename Shape>
struct LaneSums {
  using Loaded = Piece<typename Shape::Row, Shape::kElements>;
  static constexpr int kNum = Shape::kHeads * Shape::kRows;
  float values[kNum] = {};  // [heads, rows]

  // values[head][row] += a piece of each row times the same of each query.
  // q: f32 [kHeads, parts of a piece, pieces, numbers of a part], from this
  // piece on.
  __device__ void Take(const Loaded (&pieces)[Shape::kRows], const float* q,
                       int num_pieces) {
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
          float& sum = values[head * Shape::kRows + row];
#pragma unroll
          for (int i = 0; i < kPart; ++i) {
            sum = fmaf(of_head.numbers[i],
                       ToFloat(pieces[row].numbers[part * kPart + i]), sum);
          }
        }
      }
    }
  }
};

template <typename Row, int kElements, int kLanes, int kHeadsAtOnce>
struct LaneTile {
  using Shape = LaneShape<Row, kElements, kLanes, kHeadsAtOnce>;
  static constexpr int kHeads = kHeadsAtOnce;
  static constexpr bool kTakesStagedRows = false;

  static __host__ __device__ size_t QueryBytes(int padded_heads, int width) {
    return sizeof(float) * static_cast<size_t>(padded_heads) *
           static_cast<size_t>(width);
  }

  // Where a number of a query stands: as lanes read them without conflicts.
  static __device__ int QueryIndex(int head, int element, int width) {
    constexpr int kPart = Shape::kPart;
    const int num_pieces = width / kElements;
    const int part = element % kElements / kPart;
    return ((head * Shape::kParts + part) * num_pieces + element / kElements) *
               kPart +
           element % kPart;
  }
  static __device__ void StoreQuery(void* q, int index, float value) {
    static_cast<float*>(q)[index] = value;
  }

  // By a warp, to f32 [padded heads, kTileStride].
  static __device__ void Score(const TileRows& tile, const TileQueries& queries,
                               float* scores) {
    using Sums = LaneSums<Shape>;
    using Loaded = typename Sums::Loaded;
    const int lane = threadIdx.x % 32;
    const int in_row = lane % kLanes;
    const int num_pieces = queries.width / kElements;
    for (int head = 0; head < queries.num_heads; head += kHeads) {
      const float* q = static_cast<const float*>(queries.q) +
                       QueryIndex(head, 0, queries.width);
      for (int run = 0; run < kTileSlots; run += Shape::kRowsAtOnce) {
        const int first = run + lane / kLanes * Shape::kRows;
        const Loaded* rows[Shape::kRows];
#pragma unroll
        for (int i = 0; i < Shape::kRows; ++i) {
          rows[i] = reinterpret_cast<const Loaded*>(tile.Row(first + i));
        }
        Sums sums;
        for (int piece = in_row; piece < num_pieces; piece += kLanes) {
          Loaded pieces[Shape::kRows];
#pragma unroll
          for (int i = 0; i < Shape::kRows; ++i) pieces[i] = rows[i][piece];
          sums.Take(pieces, q + piece * Shape::kPart, num_pieces);
        }
        float score = SumOverLanes<Sums::kNum, kLanes>(sums.values, lane);
        if (in_row < Sums::kNum) {
          if constexpr (std::is_same_v<Row, Float8>) {
            const std::byte* row = tile.Row(first + in_row % Shape::kRows);
            score *= Float8ScaleOf(row, queries.width);
          }
          scores[(head + in_row / Shape::kRows) * kTileStride + first +
                 in_row % Shape::kRows] = score;
        }
      }
    }
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_LANES_CUH_
