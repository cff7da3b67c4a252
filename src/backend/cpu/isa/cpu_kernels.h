// CpuKernels: which implementations of the ops a CPU backend runs.
#ifndef WINNOW_BACKEND_CPU_ISA_CPU_KERNELS_H_
#define WINNOW_BACKEND_CPU_ISA_CPU_KERNELS_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace winnow {

// A set of kernels, each with one fixed order of arithmetic: bits depend on
// the set, and on nothing else of the machine; but for Linear, whose library
// takes the best instructions that the machine has, whatever the set. An op
// without a kernel of its own in a set runs the nearest one below.
enum class CpuKernels : uint8_t {
  kScalar,      // the truth: plain loops
  kPortable,    // the vector kernels in plain C++
  kAvx2,        // AVX2, FMA and F16C
  kAvx512,      // AVX-512 F, BW, DQ and VL; bfloat16 widened to float32
  kAvx512Bf16,  // with AVX512_BF16: products of bfloat16 pairs
  kAmx,         // with AMX-TILE and AMX-BF16 as well
  kBest,        // the last of AvailableCpuKernels(); never in that list
};

// "scalar", "portable", "avx2", "avx512", "avx512-bf16", "amx", "best".
std::string_view CpuKernelsName(CpuKernels kernels);

// What this CPU and operating system can run, ascending; at least kScalar and
// kPortable. Asks the system for the use of AMX tiles where there are any.
std::vector<CpuKernels> AvailableCpuKernels();

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_CPU_KERNELS_H_
