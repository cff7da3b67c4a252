// BlendValues: the values of two softmax states as those of one, in whatever
// vectors the file that includes this is compiled for.
#ifndef WINNOW_BACKEND_CPU_ISA_BLEND_VALUES_H_
#define WINNOW_BACKEND_CPU_ISA_BLEND_VALUES_H_

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

template <class Lanes>
void BlendValues(const float* later, int count, float keep, float take,
                 float* values) {
  const auto keeps = Lanes::Set(keep);
  const auto takes = Lanes::Set(take);
  for (int i = 0; i < count; i += 16) {
    Lanes::Store(values + i,
                 Lanes::Add(Lanes::Multiply(Lanes::Load(values + i), keeps),
                            Lanes::Multiply(Lanes::Load(later + i), takes)));
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_BLEND_VALUES_H_
