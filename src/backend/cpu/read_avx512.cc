#include "backend/cpu/lane_kernels.h"
#include "backend/cpu/lanes_avx512.h"

namespace winnow {

ReadKernels Avx512ReadKernels() {
  ReadKernels kernels = WideningKernels<Avx512Lanes, 4>();
  return kernels;
}

}  // namespace winnow
