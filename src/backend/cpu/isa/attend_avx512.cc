#include "backend/cpu/isa/lane_kernels.h"
#include "backend/cpu/isa/lanes_avx512.h"

namespace winnow {

VectorKernels Avx512VectorKernels() {
  return WideningKernels<Avx512Lanes, 4>();
}

}  // namespace winnow
