#include "cli/device.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(DeviceTest, WhatIsNoDeviceIsAUsageError) {
  for (const char* name :
       {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda0", "CPU"}) {
    const auto backend = StartDevice({.device = name});
    ASSERT_FALSE(backend.ok()) << name;
    EXPECT_EQ(backend.error().code, ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(
        backend.error().message,
        fmt::format("--device must be auto, cpu or cuda[:N], is \"{}\"", name));
  }
}

TEST(DeviceTest, TheCpuIsAlwaysThere) {
  const auto backend = StartDevice({.device = "cpu", .threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  EXPECT_EQ((*backend)->attributes().name, "cpu");
}

// No machine has a thousand: on one without a GPU or without CUDA the message
// says that, on others how many there are.
TEST(DeviceTest, AGpuThatIsNotThereIsAnErrorAndNeverTheCpu) {
  const auto backend = StartDevice({.device = "cuda:1000"});
  ASSERT_FALSE(backend.ok());
  EXPECT_NE(backend.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(backend.error().message.starts_with("cuda:1000: "))
      << backend.error().message;
}

TEST(DeviceTest, AutoFindsSomething) {
  const auto backend = StartDevice({.threads = 1, .quiet = true});
  ASSERT_TRUE(backend.ok()) << backend.error().message;
}

}  // namespace
}  // namespace winnow
