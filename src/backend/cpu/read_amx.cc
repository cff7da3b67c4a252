#include "backend/cpu/read_kernels.h"

namespace winnow {

ReadKernels AmxReadKernels() { return Avx512Bf16ReadKernels(); }

}  // namespace winnow
