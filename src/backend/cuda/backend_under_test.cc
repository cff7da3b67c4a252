#include "backend/conformance/backend_under_test.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cuda/cuda_backend.h"

namespace winnow {

// With room for everything, and with so little that ops take runs of rows.
// WINNOW_SEED_STEP: as BackendUnderTest has it, where a tool slows kernels
// down.
std::vector<BackendUnderTest> BackendsUnderTest() {
  // Tests make backends by the thousand: the library stays loaded.
  dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
  const auto with = [](size_t workspace_bytes) {
    return [workspace_bytes](int) {
      CudaOptions options;
      options.workspace_bytes = workspace_bytes;
      Result<std::unique_ptr<Backend>> backend = StartCudaBackend(options);
      CHECK(backend.ok(), "{}", backend.error().message);
      return std::move(backend).value();
    };
  };
  const char* asked = std::getenv("WINNOW_SEED_STEP");
  const int step = asked == nullptr ? 1 : std::max(std::atoi(asked), 1);
  return {{"Cuda", with(size_t{256} << 20), step},
          {"CudaSmallWorkspace", with(size_t{1} << 20), step}};
}

}  // namespace winnow
