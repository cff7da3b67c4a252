// A tile's scores by tensor cores: queries of a 16-bit type, rows of the same
// or of float8, whose numbers are those of either.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_MMA_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_MMA_CUH_

#include <cstring>
#include <type_traits>

#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/float8.cuh"
#include "backend/cuda/device/select/select_tile.cuh"

namespace winnow::device {

// sums += rows (16 x 16) times queries (16 x 8), products exact, float32 sums.
template <typename T>
__device__ inline void MultiplyAdd(float (&sums)[4], const uint32_t (&rows)[4],
                                   uint32_t q0, uint32_t q1);
template <>
__device__ inline void MultiplyAdd<__nv_bfloat16>(float (&sums)[4],
                                                  const uint32_t (&rows)[4],
                                                  uint32_t q0, uint32_t q1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(q0),
        "r"(q1));
}
template <>
__device__ inline void MultiplyAdd<__half>(float (&sums)[4],
                                           const uint32_t (&rows)[4],
                                           uint32_t q0, uint32_t q1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "r"(q0),
        "r"(q1));
}

// Eight numbers of a row as they are loaded, and as the instruction takes them.
template <typename T, typename Row>
struct EightNumbers {
  using Loaded = uint4;
  static __device__ uint4 Widen(const Loaded& loaded) { return loaded; }
};
template <typename T>
struct EightNumbers<T, Float8> {
  // Rows are multiples of four bytes.
  struct Loaded {
    uint32_t words[2];
  };
  static __device__ uint4 Widen(const Loaded& loaded) {
    struct alignas(16) {
      T numbers[8];
    } wide;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const Float8 number = {
          static_cast<uint8_t>(loaded.words[i / 4] >> (i % 4 * 8))};
      wide.numbers[i] = FromFloat<T>(ToFloat(number));
    }
    uint4 words;
    memcpy(&words, &wide, sizeof(words));
    return words;
  }
};

// 16 rows meet kQueryTiles times 8 queries in mma.m16n8k16. Which channels an
// instruction takes is free as long as rows and queries agree, so a lane loads
// eight numbers of its two rows at a time, from memory to registers, and they
// serve two instructions: lane (g, t) of 8 x 4 has channels [8 t, 8 t + 8) of
// each 32 of rows g and g + 8, and of query g. REQUIRES: width is a multiple
// of 32.
template <typename T, int kQueryTiles, typename Row = T>
struct MmaTile {
  using Eight = EightNumbers<T, Row>;
  using Loaded = typename Eight::Loaded;
  static constexpr int kHeads = 8 * kQueryTiles;
  static constexpr int kStepChannels = 32;
  static constexpr int kSteps = 4;  // whose loads are in flight together
  // Rows of a 16-bit type may be scored where TileRing has put them.
  static constexpr bool kTakesStagedRows = std::is_same_v<Row, T>;
  static constexpr int kNumberBytes = sizeof(Row);
  static constexpr bool kHasScales = std::is_same_v<Row, Float8>;
  static __device__ float Scaled(float sum, float scale) {
    return kHasScales ? sum * scale : sum;
  }
  static __host__ __device__ size_t QueryBytes(int padded_heads, int width) {
    return sizeof(T) * static_cast<size_t>(padded_heads) *
           static_cast<size_t>(width);
  }

  // [tiles of 8 queries, steps of 32 channels, lanes, 8]
  static __device__ int QueryIndex(int head, int element, int width) {
    const int step =
        head / 8 * (width / kStepChannels) + element / kStepChannels;
    const int lane = head % 8 * 4 + element % kStepChannels / 8;
    return (step * 32 + lane) * 8 + element % 8;
  }
  static __device__ void StoreQuery(void* q, int index, float value) {
    static_cast<T*>(q)[index] = FromFloat<T>(value);
  }

  // By a warp, to f32 [padded heads, kTileStride]: as many rows as `rows` says,
  // a multiple of 16.
  template <typename Rows>
  static __device__ void Score(const Rows& rows, const TileQueries& queries,
                               float* scores) {
    for (int head = 0; head < queries.num_heads; head += kHeads) {
      const auto* q = static_cast<const uint4*>(queries.q) +
                      head / 8 * (queries.width / kStepChannels) * 32;
      ScoreHeads(rows, q, queries.width, scores + head * kTileStride);
    }
  }

  // All rows, kHeads queries.
  template <typename Rows>
  static __device__ void ScoreHeads(const Rows& tile, const uint4* q, int width,
                                    float* scores) {
    constexpr int kHalves = Rows::kRows / 16;
    const int lane = threadIdx.x % 32;
    const int group = lane / 4, of_group = lane % 4;
    const int num_steps = width / kStepChannels;
    const Loaded* rows[2 * kHalves];
    float scales[2 * kHalves] = {};
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) {
      const std::byte* row = tile.Row(8 * i + group);
      rows[i] = reinterpret_cast<const Loaded*>(row) + of_group;
      if constexpr (kHasScales) scales[i] = Float8ScaleOf(row, width);
    }
    float sums[kHalves][kQueryTiles][4] = {};
    for (int step = 0; step < num_steps; step += kSteps) {
      Loaded pieces[kSteps][2 * kHalves] = {};
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (step + i >= num_steps) break;
#pragma unroll
        for (int row = 0; row < 2 * kHalves; ++row) {
          pieces[i][row] = rows[row][(step + i) * 4];
        }
      }
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (step + i >= num_steps) break;
        Multiply<kHalves>(pieces[i], q + (step + i) * 32 + lane, num_steps * 32,
                          sums);
      }
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#pragma unroll
      for (int i = 0; i < kQueryTiles; ++i) {
        const float(&of)[4] = sums[half][i];
        float* to =
            scores + (i * 8 + of_group * 2) * kTileStride + half * 16 + group;
        to[0] = Scaled(of[0], scales[2 * half]);
        to[kTileStride] = Scaled(of[1], scales[2 * half]);
        to[8] = Scaled(of[2], scales[2 * half + 1]);
        to[kTileStride + 8] = Scaled(of[3], scales[2 * half + 1]);
      }
    }
  }

  // A step of 32 channels; q_stride: from one tile of 8 queries to the next.
  template <int kHalves>
  static __device__ void Multiply(const Loaded (&loaded)[2 * kHalves],
                                  const uint4* q, int q_stride,
                                  float (&sums)[kHalves][kQueryTiles][4]) {
    uint4 rows[2 * kHalves];
#pragma unroll
    for (int i = 0; i < 2 * kHalves; ++i) rows[i] = Eight::Widen(loaded[i]);
#pragma unroll
    for (int i = 0; i < kQueryTiles; ++i) {
      const uint4 of_q = q[i * q_stride];
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const uint4 &low = rows[2 * half], &high = rows[2 * half + 1];
        const uint32_t first[4] = {low.x, high.x, low.y, high.y};
        const uint32_t second[4] = {low.z, high.z, low.w, high.w};
        MultiplyAdd<T>(sums[half][i], first, of_q.x, of_q.y);
        MultiplyAdd<T>(sums[half][i], second, of_q.z, of_q.w);
      }
    }
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_MMA_CUH_
