#include "tensor/buffer.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(BufferTest, FreesOnceHoweverOftenMoved) {
  int num_freed = 0;
  std::byte bytes[8];
  {
    Buffer a(Tier::kDevice, bytes, 8, [&](std::byte* data, size_t num_bytes) {
      ++num_freed;
      EXPECT_EQ(data, bytes);
      EXPECT_EQ(num_bytes, 8u);
    });
    Buffer b = std::move(a);
    Buffer c;
    c = std::move(b);
    EXPECT_EQ(c.tier(), Tier::kDevice);
    EXPECT_EQ(num_freed, 0);
  }
  EXPECT_EQ(num_freed, 1);
}

TEST(BufferTest, HostMemoryIsZeroedAndAligned) {
  const Buffer buffer = std::move(Buffer::AllocateHost(4096, "test")).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  const View view = buffer.At(64, Dtype::kFloat32, {10, 10});
  EXPECT_EQ(*view.Row<float>(9), 0.0f);
}

TEST(BufferTest, TooMuchIsAnErrorThatNamesThePurpose) {
  const Result<Buffer> buffer =
      Buffer::AllocateHost(size_t{1} << 62, "KV pool");
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(buffer.error().message.find("KV pool: cannot allocate"),
            std::string::npos);
}

TEST(BufferDeathTest, ViewsStayInside) {
  const Buffer buffer = std::move(Buffer::AllocateHost(16, "test")).value();
  EXPECT_DEATH((void)buffer.At(4, Dtype::kFloat32, {4}), "buffer_bytes=16");
}

}  // namespace
}  // namespace winnow
