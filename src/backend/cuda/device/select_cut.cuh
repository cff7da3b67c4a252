// Which of a list's scores are among the best, without sorting them.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_CUT_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_CUT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

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

// The sum of `value` over a warp's lanes before this one.
__device__ inline int SumOfLanesBefore(int value) {
  const int lane = threadIdx.x % 32;
  int sum = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(kWarpMask, sum, step);
    if (lane >= step) sum += before;
  }
  return sum - value;
}

// The sum of `value` over the block's warps before this one, and over all: a
// value a warp. A __syncthreads() stands at its start and before its reads.
__device__ inline int SumOfWarpsBefore(int value, int* of_warps, int& total) {
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  const int warp = threadIdx.x / 32;
  int before = 0;
  total = 0;
#pragma unroll
  for (int i = 0; i < kChooseWarps; ++i) {
    before += i < warp ? of_warps[i] : 0;
    total += of_warps[i];
  }
  return before;
}

// Keys below `key` are taken, and of those that equal it the first num_equal.
struct Cut {
  uint32_t key;
  int num_equal;
  bool leaves_equal;  // not all that equal it are taken
};

// Digits of 11, 11 and 10 bits. The highest holds sign, exponent and two bits
// of the mantissa, so that scores spread over it.
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

// Where the best `count` of num_keys keys end, by a block. Reads the keys at
// most three times; counts are integers, so their order is no matter.
// REQUIRES: 0 < count <= num_keys; the keys are written, by a __syncthreads().
__device__ inline Cut FindCut(const uint32_t* keys, int num_keys, int count,
                              CutScratch& scratch) {
  uint32_t known = 0, mask = 0;
  int need = count;
#pragma unroll
  for (int shift = 32 - kDigitBits; shift >= 0;
       shift = shift > kDigitBits ? shift - kDigitBits : shift - 10) {
    for (int i = threadIdx.x; i < kDigits; i += kChooseThreads) {
      scratch.counts[i] = 0;
    }
    __syncthreads();
    const uint32_t digits = shift == 0 ? kDigits / 2 - 1 : kDigits - 1;
    for (int i = threadIdx.x; i < num_keys; i += kChooseThreads) {
      const uint32_t key = keys[i];
      if ((key & mask) == known) {
        atomicAdd(&scratch.counts[key >> shift & digits], 1);
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

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_CUT_CUH_
