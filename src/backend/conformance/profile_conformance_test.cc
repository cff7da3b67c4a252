// The conformance suite: what Profile says of what ran.
#include <gtest/gtest.h>

#include <chrono>

#include "backend/conformance/backend_under_test.h"
#include "backend/conformance/test_array.h"

namespace winnow {
namespace {

class ProfileConformanceTest : public testing::TestWithParam<BackendUnderTest> {
};

double SumOf(const std::vector<LaunchTime>& times) {
  double seconds = 0;
  for (const LaunchTime& time : times) {
    EXPECT_GE(time.seconds, 0) << time.name;
    EXPECT_FALSE(time.name.empty());
    seconds += time.seconds;
  }
  return seconds;
}

TEST_P(ProfileConformanceTest, WhatIsTimedRunsAndTakesNoLongerThanItsCall) {
  TestDevice device(GetParam().make(2));
  RandomSource random(1);
  const TestArray table = RandomArray(Dtype::kFloat32, {7, 64}, random);
  const std::vector<int32_t> ids = {3, 0, 6, 6, 1};
  EmbedArgs args;
  args.token_ids = device.Upload(Int32Array(ids));
  args.table = device.Upload(table);
  constexpr int kOps = 6;
  const std::string key = "six times";
  for (const bool recorded : {false, true, true}) {
    // Into memory that says whether anything was written.
    args.out = device.Output(Dtype::kFloat32, {5, 64});
    const EmbedArgs placed = args;
    const auto embed = [&] {
      for (int i = 0; i < kOps; ++i) {
        device.backend().Embed(device.queue(), placed);
      }
    };
    const std::string named =
        key + std::to_string(recorded) +
        std::to_string(reinterpret_cast<uintptr_t>(args.out.data));
    const auto start = std::chrono::steady_clock::now();
    const std::vector<LaunchTime> times =
        device.backend()
            .Profile(device.queue(),
                     [&] {
                       if (!recorded) return embed();
                       device.backend().Replay(device.queue(),
                                               std::as_bytes(std::span(named)),
                                               embed);
                     })
            .value();
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    const double sum = SumOf(times);
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, took.count());
    const size_t launches = times.size();
    EXPECT_TRUE(launches == 1 || (!recorded && launches == kOps)) << launches;
    const TestArray out = device.Download(args.out);
    for (int64_t row = 0; row < 5; ++row) {
      for (int64_t i = 0; i < 64; ++i) {
        ASSERT_EQ(out.at(row, i), table.at(ids[static_cast<size_t>(row)], i));
      }
    }
  }
  // What is not profiled is not waited for, nor counted.
  device.backend().Embed(device.queue(), args);
  EXPECT_TRUE(device.backend().Profile(device.queue(), [] {}).ok());
}

INSTANTIATE_TEST_SUITE_P(Backends, ProfileConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
