#include "backend/cpu/lane_kernels.h"
#include "backend/cpu/lanes_avx512.h"

namespace winnow {

ReadKernels Avx512ReadKernels() { return WideningKernels<Avx512Lanes, 4>(); }

}  // namespace winnow
