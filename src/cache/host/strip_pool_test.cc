#include "cache/host/strip_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"

namespace winnow {
namespace {

StripPoolOptions Options(PoolLayout layout) {
  return {.format = MakeSliceFormat(Dtype::kFloat32, 4, 8),
          .num_layers = 3,
          .num_kv_heads = 2,
          .num_extents = 5,
          .layout = layout};
}

class StripPoolTest : public ::testing::TestWithParam<PoolLayout> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
};

TEST_P(StripPoolTest, SlicesTileTheBuffer) {
  const Result<StripPool> pool =
      StripPool::Create(*backend_, Options(GetParam()));
  ASSERT_TRUE(pool.ok()) << pool.error().message;
  EXPECT_EQ(pool->num_bytes(), size_t{3 * 2 * 5 * kSliceBytes});
  std::set<int64_t> offsets;
  for (int layer = 0; layer < 3; ++layer) {
    for (uint32_t extent = 0; extent < 5; ++extent) {
      for (int head = 0; head < 2; ++head) {
        offsets.insert(pool->Slice(layer, ExtentId(extent), head) -
                       pool->strips(0));
      }
    }
  }
  ASSERT_EQ(offsets.size(), 30u);
  int64_t expected = 0;
  for (int64_t offset : offsets) {
    EXPECT_EQ(offset, expected);
    expected += kSliceBytes;
  }
}

TEST_P(StripPoolTest, AStripIsTheHeadsOfOneLayerAndPage) {
  const Result<StripPool> pool =
      StripPool::Create(*backend_, Options(GetParam()));
  EXPECT_EQ(pool->Slice(2, ExtentId(4), 1) - pool->Slice(2, ExtentId(4), 0),
            kSliceBytes);
}

INSTANTIATE_TEST_SUITE_P(Layouts, StripPoolTest,
                         ::testing::Values(PoolLayout::kLayerMajor,
                                           PoolLayout::kExtentMajor));

TEST_F(StripPoolTest, ALayoutIsTwoNumbers) {
  const Result<StripPool> by_layer =
      StripPool::Create(*backend_, Options(PoolLayout::kLayerMajor));
  EXPECT_EQ(by_layer->extent_stride_bytes(), 2 * kSliceBytes);
  EXPECT_EQ(by_layer->layer_stride_bytes(), 5 * 2 * kSliceBytes);
  const Result<StripPool> by_extent =
      StripPool::Create(*backend_, Options(PoolLayout::kExtentMajor));
  EXPECT_EQ(by_extent->layer_stride_bytes(), 2 * kSliceBytes);
  EXPECT_EQ(by_extent->extent_stride_bytes(), 3 * 2 * kSliceBytes);
}

TEST_F(StripPoolTest, ExtentBytesOfAKnownShape) {
  // 32 layers, 8 KV heads of 128 in bfloat16: 16 KiB a slice, 4 MiB a page.
  const SliceFormat format = MakeSliceFormat(Dtype::kBFloat16, 128, 128);
  EXPECT_EQ(ExtentBytes(format, 32, 8), int64_t{4} << 20);
}

TEST_F(StripPoolTest, ExtentsInABudget) {
  EXPECT_EQ(*ExtentsIn(4096, 1024, "device-kv"), 4);
  EXPECT_EQ(*ExtentsIn(4095, 1024, "device-kv"), 3);
  EXPECT_EQ(ExtentsIn(1023, 1024, "device-kv").error().message,
            "device-kv must hold at least one page of 1.0 KiB, is 1023 B");
  EXPECT_EQ(ExtentsIn(1023, 1024, "device-kv").error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ExtentsIn(int64_t{1} << 40, 64, "device-kv").error().message,
            "device-kv may hold at most 4294967294 pages of 64 B, is 1.0 TiB");
}

TEST_F(StripPoolTest, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  StripPoolOptions options = Options(PoolLayout::kLayerMajor);
  options.num_extents = 0xfffffffe;
  options.num_layers = 1 << 20;
  const Result<StripPool> pool = StripPool::Create(*backend_, options);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(pool.error().message.find("4294967294 pages of 3.0 GiB"),
            std::string::npos)
      << pool.error().message;
}

using StripPoolDeathTest = StripPoolTest;

TEST_F(StripPoolDeathTest, SlicesStayInside) {
  const Result<StripPool> pool =
      StripPool::Create(*backend_, Options(PoolLayout::kLayerMajor));
  EXPECT_DEATH((void)pool->Slice(3, ExtentId(0), 0), "layer=3");
  EXPECT_DEATH((void)pool->Slice(0, ExtentId(5), 0), "extent=5");
  EXPECT_DEATH((void)pool->Slice(0, ExtentId(0), 2), "head=2");
}

}  // namespace
}  // namespace winnow
