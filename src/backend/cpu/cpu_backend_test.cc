#include "backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

namespace winnow {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A sanitizer's own address space leaves no room for such a limit.
TEST(CpuBackendDeathTest, ThreadsThatTheSystemDoesNotStartAreAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto start = [] {
    const rlimit limit = {.rlim_cur = 400'000'000, .rlim_max = 400'000'000};
    setrlimit(RLIMIT_AS, &limit);
    const auto backend = StartCpuBackend({.num_threads = 1024});
    if (backend.ok()) std::exit(1);
    std::fprintf(stderr, "%s", backend.error().message.c_str());
    std::exit(0);
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(0),
              "threads must be at most [0-9]+ .the system starts no more., is "
              "1024");
}
#endif

}  // namespace
}  // namespace winnow
