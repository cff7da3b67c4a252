#include "backend/cpu/isa/lane_kernels.h"
#include "backend/cpu/isa/lanes_avx2.h"

namespace winnow {

VectorKernels Avx2VectorKernels() { return WideningKernels<Avx2Lanes, 1>(); }

}  // namespace winnow
