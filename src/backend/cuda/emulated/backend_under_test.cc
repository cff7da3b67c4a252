#include "backend/conformance/backend_under_test.h"

#include "backend/cuda/cuda_backend.h"

namespace winnow {

// Device 0 with room for everything, and device 1, of few multiprocessors,
// with so little that ops take runs of rows.
std::vector<BackendUnderTest> BackendsUnderTest() {
  const auto with = [](int device, size_t workspace_bytes) {
    return [device, workspace_bytes](int) {
      CudaOptions options;
      options.device = device;
      options.workspace_bytes = workspace_bytes;
      Result<std::unique_ptr<Backend>> backend = StartCudaBackend(options);
      CHECK(backend.ok(), "{}", backend.error().message);
      return std::move(backend).value();
    };
  };
  return {{"Emulated", with(0, size_t{4} << 20), 3},
          {"EmulatedSmallWorkspace", with(1, size_t{1} << 20), 5}};
}

}  // namespace winnow
