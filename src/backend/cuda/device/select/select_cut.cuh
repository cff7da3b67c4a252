// Which of a list's scores are among the best, without sorting them.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_CUT_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_CUT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/device/runtime/lane_sum.cuh"

namespace winnow::device {

constexpr int kChooseThreads = 512;
constexpr int kChooseWarps = kChooseThreads / 32;
constexpr unsigned kWarpMask = 0xffffffffu;

// An integer that orders as scores do, the best first. NaN is -infinity, and
// the two zeros are one.
__device__ inline uint32_t KeyOf(float score) {
  const float ordered = isnan(score) ? -INFINITY : score + 0.0f;
  const uint32_t bits = __float_as_uint(ordered);
  const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

// The sum of `value` over the block's warps before this one, and over all: a
// value a warp. A __syncthreads() stands at its start and before its reads.
template <int kWarps = kChooseWarps>
__device__ inline int SumOfWarpsBefore(int value, int* of_warps, int& total) {
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  const int warp = threadIdx.x / 32;
  int before = 0;
  total = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    before += i < warp ? of_warps[i] : 0;
    total += of_warps[i];
  }
  return before;
}

// Keys below `key` are taken, and of those that equal it the first ones, that
// weigh num_equal together.
struct Cut {
  uint32_t key;
  int num_equal;
  bool leaves_equal;  // not all that equal it are taken
};

// The most bits of a digit.
constexpr int kDigitBits = 11;
constexpr int kDigits = 1 << kDigitBits;

struct CutScratch {
  int counts[kDigits];
  int of_warps[kChooseWarps];
  int digit, before, count;  // of the digit where the cut lies
};

// The digit that the need-th least key has, from scratch.counts.
__device__ inline void FindDigit(int need, CutScratch& scratch) {
  constexpr int kEach = kDigits / kChooseThreads;
  const int first = threadIdx.x * kEach;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += scratch.counts[first + i];
  const int in_warp = SumOfLanesBefore(sum);
  const int of_warp = __shfl_sync(kWarpMask, in_warp + sum, 31);
  int total = 0;
  int before = SumOfWarpsBefore(of_warp, scratch.of_warps, total) + in_warp;
  if (before < need && need <= before + sum) {
    int digit = first;
    while (before + scratch.counts[digit] < need) {
      before += scratch.counts[digit++];
    }
    scratch.digit = digit;
    scratch.before = before;
    scratch.count = scratch.counts[digit];
  }
  __syncthreads();
}

// How many low bits the keys do not share, by a block.
__device__ inline int NumBits(const uint32_t* keys, int num_keys,
                              CutScratch& scratch) {
  unsigned differs = 0;
  for (int i = threadIdx.x; i < num_keys; i += kChooseThreads) {
    differs |= keys[i] ^ keys[0];
  }
  differs = __reduce_or_sync(kWarpMask, differs);
  if (threadIdx.x % 32 == 0) {
    scratch.of_warps[threadIdx.x / 32] = static_cast<int>(differs);
  }
  __syncthreads();
  int all = 0;
#pragma unroll
  for (int i = 0; i < kChooseWarps; ++i) all |= scratch.of_warps[i];
  return 32 - __clz(all);
}

// Where the best of num_keys keys end that weigh `need` together, key i
// weight(i), by a block: a digit at a time,
// from the first bit in which keys differ. So digits spread over their range
// (scores of a kind share sign, exponent and more, and those that share a digit
// wait for one another where they are counted), and two mostly do. Counts are
// integers, so their order is no matter.
// REQUIRES: 0 < need, no more than all keys weigh; the keys are written, by a
// __syncthreads().
template <typename Weight>
__device__ Cut FindWeightedCut(const uint32_t* keys, int num_keys, int need,
                               CutScratch& scratch, Weight&& weight) {
  int shift = NumBits(keys, num_keys, scratch);
  uint32_t mask = shift == 32 ? 0u : ~0u << shift;
  uint32_t known = keys[0] & mask;
  while (shift > 0) {
    for (int i = threadIdx.x; i < kDigits; i += kChooseThreads) {
      scratch.counts[i] = 0;
    }
    __syncthreads();
    const int num_bits = min(shift, kDigitBits);
    shift -= num_bits;
    const uint32_t digits = (1u << num_bits) - 1;
    for (int i = threadIdx.x; i < num_keys; i += kChooseThreads) {
      const uint32_t key = keys[i];
      if ((key & mask) == known) {
        atomicAdd(&scratch.counts[key >> shift & digits], weight(i));
      }
    }
    __syncthreads();
    FindDigit(need, scratch);
    known |= static_cast<uint32_t>(scratch.digit) << shift;
    mask |= digits << shift;
    need -= scratch.before;
    // The digit is taken whole: lower ones do not matter.
    if (scratch.count == need) return {known | ~mask, need, false};
  }
  return {known, need, true};
}

// Where the best `count` end, as many as there are at most.
__device__ inline Cut FindCut(const uint32_t* keys, int num_keys, int count,
                              CutScratch& scratch) {
  return FindWeightedCut(keys, num_keys, count, scratch, [](int) { return 1; });
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_CUT_CUH_
