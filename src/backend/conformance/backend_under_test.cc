#include "backend/conformance/backend_under_test.h"

#include "backend/cpu/cpu_backend.h"

namespace winnow {

std::vector<BackendUnderTest> BackendsUnderTest() {
  std::vector<BackendUnderTest> backends;
  for (const CpuKernels kernels : AvailableCpuKernels()) {
    std::string name = "Cpu_";
    for (const char c : CpuKernelsName(kernels)) name += c == '-' ? '_' : c;
    backends.push_back({name, [kernels](int num_threads) {
                          return MakeCpuBackend({num_threads, kernels});
                        }});
  }
  return backends;
}

}  // namespace winnow
