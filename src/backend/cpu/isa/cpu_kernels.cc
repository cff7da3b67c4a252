#include "backend/cpu/isa/cpu_kernels.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

namespace winnow {
namespace {

// The registers of one CPUID leaf; zeros where the CPU has no such leaf.
struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf ReadCpuid(unsigned leaf, unsigned subleaf) {
  CpuidLeaf out;
  __get_cpuid_count(leaf, subleaf, &out.eax, &out.ebx, &out.ecx, &out.edx);
  return out;
}

bool HasBits(uint64_t word, std::initializer_list<int> bits) {
  for (const int bit : bits) {
    if ((word >> bit & 1) == 0) return false;
  }
  return true;
}

// Which register states the operating system saves (Intel SDM volume 1, 13.3).
// REQUIRES: CPUID says OSXSAVE.
__attribute__((target("xsave"))) uint64_t ReadExtendedControl() {
  return _xgetbv(0);
}

// Linux gives a process AMX's tile data only when asked
// (Documentation/arch/x86/xstate.rst); threads made later inherit it.
bool RequestTileData() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::string_view CpuKernelsName(CpuKernels kernels) {
  switch (kernels) {
    case CpuKernels::kScalar:
      return "scalar";
    case CpuKernels::kPortable:
      return "portable";
    case CpuKernels::kAvx2:
      return "avx2";
    case CpuKernels::kAvx512:
      return "avx512";
    case CpuKernels::kAvx512Bf16:
      return "avx512-bf16";
    case CpuKernels::kAmx:
      return "amx";
    case CpuKernels::kBest:
      return "best";
  }
  CHECK(false, "kernels={}", static_cast<int>(kernels));
}

std::vector<CpuKernels> AvailableCpuKernels() {
  std::vector<CpuKernels> available = {CpuKernels::kScalar,
                                       CpuKernels::kPortable};
  const CpuidLeaf basic = ReadCpuid(1, 0);
  const CpuidLeaf extended = ReadCpuid(7, 0);
  const CpuidLeaf extended1 = ReadCpuid(7, 1);
  // FMA, OSXSAVE, AVX, F16C; then AVX2 and BMI2; SSE and AVX state is saved.
  if (!HasBits(basic.ecx, {12, 27, 28, 29})) return available;
  if (!HasBits(extended.ebx, {5, 8})) return available;
  const uint64_t saved = ReadExtendedControl();
  if (!HasBits(saved, {1, 2})) return available;
  available.push_back(CpuKernels::kAvx2);
  // AVX-512 F, DQ, BW, VL; mask and upper register state is saved.
  if (!HasBits(extended.ebx, {16, 17, 30, 31})) return available;
  if (!HasBits(saved, {5, 6, 7})) return available;
  available.push_back(CpuKernels::kAvx512);
  if (!HasBits(extended1.eax, {5})) return available;
  available.push_back(CpuKernels::kAvx512Bf16);
  // AMX-BF16 and AMX-TILE; tile configuration and data state is saved.
  if (!HasBits(extended.edx, {22, 24})) return available;
  if (!HasBits(saved, {17, 18}) || !RequestTileData()) return available;
  available.push_back(CpuKernels::kAmx);
  return available;
}

}  // namespace winnow
