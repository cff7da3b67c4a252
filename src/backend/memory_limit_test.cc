#include "backend/memory_limit.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding.h"
#include "base/size_text.h"

namespace winnow {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A device of 100 MiB, of which so many are free.
class SmallBackend final : public ForwardingBackend {
 public:
  explicit SmallBackend(int64_t free_bytes)
      : ForwardingBackend(MakeCpuBackend({.num_threads = 1})) {
    attributes_.name = "small";
    attributes_.memory_bytes = 100 * kMiB;
    attributes_.available_bytes = free_bytes;
  }
  const BackendAttributes& attributes() const override { return attributes_; }
  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    if (refuses) {
      return MakeError(ErrorCode::kResourceExhausted, "{}: refused", purpose);
    }
    return real().Allocate(tier, num_bytes, purpose);
  }
  bool refuses = false;

 private:
  BackendAttributes attributes_;
};

Result<std::unique_ptr<Backend>> Limited(int64_t free_bytes,
                                         const MemoryLimitOptions& options) {
  return LimitMemory(std::make_unique<SmallBackend>(free_bytes), options);
}

Result<Buffer> Take(Backend& backend, int64_t num_bytes,
                    std::string_view purpose) {
  return backend.Allocate(Tier::kDevice, static_cast<size_t>(num_bytes),
                          purpose);
}

TEST(MemoryLimitTest, WhatIsTakenBeyondTheShareIsRefusedWithTheSum) {
  const auto backend = Limited(90 * kMiB, {.utilization = 0.5,
                                           .workspace_bytes = 7 * kMiB,
                                           .graph_bytes = 3 * kMiB})
                           .value();
  EXPECT_EQ(backend->attributes().available_bytes, 40 * kMiB);
  EXPECT_EQ(backend->attributes().memory_bytes, 100 * kMiB);
  const Buffer weights = Take(*backend, 25 * kMiB, "weights").value();
  {
    const Buffer pool = Take(*backend, 15 * kMiB, "KV pool").value();
    const auto more = Take(*backend, 1, "activations");
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(
        more.error().message,
        fmt::format(
            "activations: {} of device memory asked for beside workspace "
            "of the ops {} + graphs {} + weights {} + KV pool {} = {}; at "
            "most {} may be taken (gpu-memory-utilization 0.5 of {})",
            FormatBytes(1), FormatBytes(7 * kMiB), FormatBytes(3 * kMiB),
            FormatBytes(25 * kMiB), FormatBytes(15 * kMiB),
            FormatBytes(50 * kMiB), FormatBytes(50 * kMiB),
            FormatBytes(100 * kMiB)));
    // The host's memory is nobody's share.
    EXPECT_TRUE(
        backend->Allocate(Tier::kHost, 200 * kMiB, "pinned pieces").ok());
  }
  // What was given back may be taken again.
  EXPECT_TRUE(Take(*backend, 15 * kMiB, "KV pool").ok());
  EXPECT_FALSE(Take(*backend, 15 * kMiB + 1, "KV pool").ok());
}

TEST(MemoryLimitTest, WithoutAShareNearlyAllThatIsFreeMayBeTaken) {
  const auto backend = Limited(50 * kMiB, {.workspace_bytes = 10 * kMiB,
                                           .graph_bytes = 20 * kMiB})
                           .value();
  const int64_t available = backend->attributes().available_bytes;
  EXPECT_LT(available, 30 * kMiB);
  EXPECT_GT(available, 25 * kMiB);
  EXPECT_TRUE(Take(*backend, available, "weights").ok());
  EXPECT_FALSE(Take(*backend, available + 1, "weights").ok());
}

TEST(MemoryLimitTest, AShareThatIsNotThereIsRefusedAtStart) {
  const MemoryLimitOptions most = {
      .utilization = 0.9, .workspace_bytes = 5 * kMiB, .graph_bytes = 5 * kMiB};
  EXPECT_TRUE(Limited(85 * kMiB, most).ok());
  const auto refused = Limited(85 * kMiB - 1, most);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(refused.error().message.starts_with(
      "small: gpu-memory-utilization 0.9 of 100 MiB is 90.0 MiB; free are "))
      << refused.error().message;
}

TEST(MemoryLimitTest, LessThanTheBackendsOwnIsRefusedAtStart) {
  const MemoryLimitOptions own = {
      .utilization = 0.1, .workspace_bytes = 6 * kMiB, .graph_bytes = 4 * kMiB};
  EXPECT_EQ(Limited(85 * kMiB, own).value()->attributes().available_bytes, 0);
  for (const auto& [utilization, bound] :
       {std::pair<std::optional<double>, std::string>{
            0.09, "gpu-memory-utilization 0.09 of 100 MiB"},
        {std::nullopt, "3.0 MiB were free"}}) {
    MemoryLimitOptions options = own;
    options.utilization = utilization;
    const auto refused = Limited(utilization ? 85 * kMiB : 3 * kMiB, options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(refused.error().message,
              fmt::format("small: at most {} may be taken ({}), less than "
                          "workspace of the ops 6.0 MiB + graphs 4.0 MiB",
                          utilization ? "9.0 MiB" : "8.9 MiB", bound));
  }
}

TEST(MemoryLimitTest, WhatTheDeviceRefusesShowsTheSumToo) {
  auto small = std::make_unique<SmallBackend>(90 * kMiB);
  SmallBackend& device = *small;
  const auto backend =
      LimitMemory(std::move(small), {.utilization = 0.9}).value();
  const Buffer weights = Take(*backend, 20 * kMiB, "weights").value();
  device.refuses = true;
  const auto refused = Take(*backend, kMiB, "KV pool");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(refused.error().message.starts_with(
      "KV pool: refused, beside weights 20"))
      << refused.error().message;
}

}  // namespace
}  // namespace winnow
