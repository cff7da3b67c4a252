// The running softmax of a warpgroup's 64 rows, in the registers that hold
// their scores (wgmma.cuh says which), after FlashAttention-3 (Shah et al.,
// 2024, section 3): a thread has two rows, and shares them with three others.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_SOFTMAX_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_SOFTMAX_CUH_

#include <cuda_bf16.h>

#include <cstdint>

namespace winnow::device {

// Registers of a [64, 128] accumulator.
inline constexpr int kScoresPerThread = 64;

__device__ inline float NoKey() { return __int_as_float(0xff800000); }

__device__ inline float PowerOfTwo(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

// Of the two rows of one thread. Tiles that a row sees nothing of change none
// of its bits: they keep times one and add zero.
struct PromptSoftmax {
  float maximum[2];  // greatest score so far
  float sum[2];      // of the weights of the keys in this thread's columns

  __device__ PromptSoftmax() : maximum{NoKey(), NoKey()}, sum{0, 0} {}

  // Takes the scores of a tile in and turns them into weights 2^(log2_scale *
  // (score - maximum)). keep: what the weights before it are worth now.
  __device__ void TakeIn(float (&scores)[kScoresPerThread], float log2_scale,
                         float (&keep)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float before = maximum[r];
      maximum[r] = fmaxf(before, Greatest(scores, r));
      // A row that has seen nothing yet: every weight is zero, not NaN.
      const float top = maximum[r] == NoKey() ? 0.0f : maximum[r];
      const float offset = -(top * log2_scale);
      keep[r] = PowerOfTwo((before - top) * log2_scale);
      float sums[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < kScoresPerThread / 4; ++i) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[4 * i + 2 * r + c];
          score = PowerOfTwo(__fmaf_rn(score, log2_scale, offset));
          sums[i % 2 * 2 + c] += score;
        }
      }
      sum[r] =
          __fmaf_rn(sum[r], keep[r], (sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  }

  // The sums of whole rows, in all their threads.
  __device__ void SumUp() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 2);
    }
  }

 private:
  __device__ static float Greatest(const float (&scores)[kScoresPerThread],
                                   int r) {
    float greatest[4] = {scores[2 * r], scores[2 * r + 1], scores[4 + 2 * r],
                         scores[4 + 2 * r + 1]};
#pragma unroll
    for (int i = 2; i < kScoresPerThread / 4; ++i) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& so_far = greatest[i % 2 * 2 + c];
        so_far = fmaxf(so_far, scores[4 * i + 2 * r + c]);
      }
    }
    float all =
        fmaxf(fmaxf(greatest[0], greatest[1]), fmaxf(greatest[2], greatest[3]));
    all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, 1));
    return fmaxf(all, __shfl_xor_sync(0xffffffff, all, 2));
  }
};

// Which keys a row sees: [first, last], counted from the tile's first.
struct VisibleKeys {
  int first, last;
};

// Scores of keys that the thread's rows do not see become those of no key.
__device__ inline void HideKeys(const VisibleKeys (&visible)[2],
                                float (&scores)[kScoresPerThread]) {
  const int first_column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kScoresPerThread; ++i) {
    const int key = i / 4 * 8 + i % 2 + first_column;
    const VisibleKeys& row = visible[i / 2 % 2];
    if (key < row.first || key > row.last) scores[i] = NoKey();
  }
}

// The same of keys that the rows' lists do not name; bit t: key t.
__device__ inline void HideUnpicked(const uint4 (&picked)[2],
                                    float (&scores)[kScoresPerThread]) {
  const uint32_t all = picked[0].x & picked[0].y & picked[0].z & picked[0].w &
                       picked[1].x & picked[1].y & picked[1].z & picked[1].w;
  if (__all_sync(0xffffffff, all == 0xffffffff)) return;
  const int first_column = threadIdx.x % 4 * 2;
  const uint32_t words[2][4] = {
      {picked[0].x >> first_column, picked[0].y >> first_column,
       picked[0].z >> first_column, picked[0].w >> first_column},
      {picked[1].x >> first_column, picked[1].y >> first_column,
       picked[1].z >> first_column, picked[1].w >> first_column}};
#pragma unroll
  for (int i = 0; i < kScoresPerThread; ++i) {
    const uint32_t word = words[i / 2 % 2][i / 16];
    if ((word >> (i / 4 % 4 * 8 + i % 2) & 1) == 0) scores[i] = NoKey();
  }
}

// The weights as the left operand of a product: eight steps of 16 keys.
__device__ inline void RoundWeights(const float (&weights)[kScoresPerThread],
                                    uint32_t (&operand)[8][4]) {
#pragma unroll
  for (int i = 0; i < kScoresPerThread / 2; ++i) {
    const __nv_bfloat162 pair =
        __floats2bfloat162_rn(weights[2 * i], weights[2 * i + 1]);
    operand[i / 4][i % 4] = reinterpret_cast<const uint32_t&>(pair);
  }
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_SOFTMAX_CUH_
