// AttendState: attention over some of the keys, to be merged with later ones'.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_STATE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_STATE_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace winnow::device {

// 2^x within two units in the last place; 2^-infinity is 0, 2^0 is 1.
__device__ inline float Exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 2^(from - to). REQUIRES: to is not -infinity.
__device__ inline float WeightOf(float from, float to) {
  return from == to ? 1.0f : Exp2(from - to);
}

// The greatest score (times log2 of e), the sum of the weights relative to it,
// and a thread's share of the values weighted by the same.
template <int kValues>
struct AttendState {
  float maximum = -INFINITY;
  float sum = 0;
  float values[kValues] = {};

  // Takes in the state of later keys: the same arithmetic whichever kernel
  // does it, so that bits do not depend on where units are merged.
  __device__ void Merge(const AttendState& later) {
    if (later.maximum == -INFINITY) return;
    const float greatest = fmaxf(maximum, later.maximum);
    const float keep = WeightOf(maximum, greatest);
    const float take = WeightOf(later.maximum, greatest);
    maximum = greatest;
    sum = __fmaf_rn(later.sum, take, __fmul_rn(sum, keep));
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      values[i] = __fmaf_rn(later.values[i], take, __fmul_rn(values[i], keep));
    }
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_STATE_CUH_
