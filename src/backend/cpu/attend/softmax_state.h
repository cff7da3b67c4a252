// SoftmaxState: attention over some of the keys, to be merged with that over
// others.
#ifndef WINNOW_BACKEND_CPU_ATTEND_SOFTMAX_STATE_H_
#define WINNOW_BACKEND_CPU_ATTEND_SOFTMAX_STATE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// The state of one row, in memory that someone else owns: `dim` values, then
// the maximum (units of log2), then the sum.
class SoftmaxState {
 public:
  static int64_t NumFloats(int dim) { return dim + 2; }

  SoftmaxState(float* memory, int dim) : memory_(memory), dim_(dim) {}

  float* values() const { return memory_; }
  float& maximum() const { return memory_[dim_]; }
  float& sum() const { return memory_[dim_ + 1]; }

  // What Merge takes for a state that has seen no key, whatever it holds.
  void MarkEmpty() const { maximum() = kNoKeyYet; }

  // Takes in the state of later keys: the same order of arithmetic whoever
  // holds it. One that has seen no key changes nothing; to one that has seen
  // none, the other is copied. A set's `blend` has the same bits as the plain
  // loop. REQUIRES: with a kernel, dim is a multiple of 16.
  void Merge(const float* values, float maximum_of, float sum_of,
             BlendKernel blend = nullptr) const {
    if (maximum_of == kNoKeyYet) return;
    if (maximum() == kNoKeyYet) {
      std::copy_n(values, dim_, memory_);
      maximum() = maximum_of;
      sum() = sum_of;
      return;
    }
    // Which one is greater no branch would foresee.
    const bool stays = maximum() >= maximum_of;
    const float less = std::exp2(-std::abs(maximum() - maximum_of));
    const float weights[] = {less, 1.0f, less};
    const float keep = weights[stays], take = weights[stays + 1];
    maximum() = std::max(maximum(), maximum_of);
    sum() = sum() * keep + sum_of * take;
    if (blend != nullptr) return blend(values, dim_, keep, take, memory_);
    for (int i = 0; i < dim_; ++i) {
      memory_[i] = memory_[i] * keep + values[i] * take;
    }
  }
  void Merge(const SoftmaxState& later, BlendKernel blend = nullptr) const {
    Merge(later.values(), later.maximum(), later.sum(), blend);
  }

 private:
  float* memory_;
  int dim_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_SOFTMAX_STATE_H_
