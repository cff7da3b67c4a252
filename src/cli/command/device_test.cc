#include "cli/command/device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding.h"

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

// A GPU on which others have taken all but a MiB.
class FullGpu final : public ForwardingBackend {
 public:
  FullGpu() : ForwardingBackend(MakeCpuBackend({.num_threads = 1})) {
    attributes_.name = "cuda:0";
    attributes_.memory_bytes = int64_t{80} << 30;
    attributes_.available_bytes = int64_t{1} << 20;
  }
  const BackendAttributes& attributes() const override { return attributes_; }

 private:
  BackendAttributes attributes_;
};

TEST(DeviceTest, AutoIsTheCpuWhereTheGpuIsFullAndSaysSo) {
  const GpuStart start = [](const CudaOptions&) {
    return Result<std::unique_ptr<Backend>>(std::make_unique<FullGpu>());
  };
  const DeviceChoice choice = {.threads = 1, .memory_utilization = 0.5};
  testing::internal::CaptureStderr();
  const auto backend = StartDevice(choice, start);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  EXPECT_EQ((*backend)->attributes().name, "cpu");
  EXPECT_TRUE(said.starts_with("winnow: using the CPU: cuda:0: ")) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;

  DeviceChoice named = choice;
  named.device = "cuda";
  const auto refused = StartDevice(named, start);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
}

TEST(DeviceTest, AutoFindsSomething) {
  const auto backend = StartDevice({.threads = 1, .quiet = true});
  ASSERT_TRUE(backend.ok()) << backend.error().message;
}

}  // namespace
}  // namespace winnow
