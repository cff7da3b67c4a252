// The backends that the conformance suite runs, one test instance each.
#ifndef WINNOW_BACKEND_CONFORMANCE_BACKEND_UNDER_TEST_H_
#define WINNOW_BACKEND_CONFORMANCE_BACKEND_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace winnow {

struct BackendUnderTest {
  std::string name;  // letters and digits
  std::function<std::unique_ptr<Backend>(int num_threads)> make;
  int seed_step = 1;  // a slow one has every seed_step-th round of a test
};

// Each set of kernels that this machine can run.
std::vector<BackendUnderTest> BackendsUnderTest();

// What INSTANTIATE_TEST_SUITE_P calls an instance.
inline std::string NameOfBackend(
    const testing::TestParamInfo<BackendUnderTest>& instance) {
  return instance.param.name;
}
// What a failing test prints of it.
inline void PrintTo(const BackendUnderTest& backend, std::ostream* out) {
  *out << backend.name;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_BACKEND_UNDER_TEST_H_
