#include "backend/conformance/backend_under_test.h"
#include "backend/cpu/cpu_backend.h"
#include "engine/testing/late_backend.h"

namespace winnow {

// Nothing runs before it is waited for; or some of it does, at any time.
std::vector<BackendUnderTest> BackendsUnderTest() {
  const auto with = [](double eagerness) {
    return [eagerness](int num_threads) {
      return std::make_unique<LateBackend>(
          MakeCpuBackend({.num_threads = num_threads}), /*seed=*/7, eagerness);
    };
  };
  return {{"Late", with(0)}, {"AnyTime", with(0.02)}};
}

}  // namespace winnow
