#include "tensor/buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace winnow {
namespace {

// How much of it is in memory.
size_t ResidentBytes(const Buffer& buffer) {
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((buffer.num_bytes() + page_bytes - 1) /
                                   page_bytes);
  EXPECT_EQ(mincore(buffer.data(), buffer.num_bytes(), pages.data()), 0);
  return static_cast<size_t>(std::ranges::count_if(
             pages, [](unsigned char page) { return (page & 1) != 0; })) *
         page_bytes;
}

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

TEST(BufferTest, WhatIsSmallIsThereAtOnce) {
  constexpr size_t kMiB = size_t{1} << 20;
  const Buffer small = std::move(Buffer::AllocateHost(3 * kMiB, "t")).value();
  // Of a kernel that can.
  if (madvise(small.data(), 3 * kMiB, MADV_POPULATE_WRITE) != 0) GTEST_SKIP();
  const Buffer other = std::move(Buffer::AllocateHost(3 * kMiB, "t")).value();
  EXPECT_EQ(ResidentBytes(other), 3 * kMiB);
  const Buffer pool = std::move(Buffer::AllocateHost(64 * kMiB, "t")).value();
  EXPECT_EQ(ResidentBytes(pool), 0u);
  pool.data()[40 * kMiB] = std::byte{1};
  EXPECT_GT(ResidentBytes(pool), 0u);
  EXPECT_LE(ResidentBytes(pool), 2 * kMiB);
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
