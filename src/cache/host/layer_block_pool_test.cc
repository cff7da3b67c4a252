#include "cache/host/layer_block_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"

namespace winnow {
namespace {

LayerBlockPoolOptions Options(PoolLayout layout) {
  return {.format = MakeHeadBlockFormat(Dtype::kFloat32, 4, 8),
          .num_layers = 3,
          .num_kv_heads = 2,
          .num_kv_blocks = 5,
          .layout = layout};
}

class LayerBlockPoolTest : public ::testing::TestWithParam<PoolLayout> {
 protected:
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
};

TEST_P(LayerBlockPoolTest, SlicesTileTheBuffer) {
  const Result<LayerBlockPool> pool =
      LayerBlockPool::Create(*backend_, Options(GetParam()));
  ASSERT_TRUE(pool.ok()) << pool.error().message;
  EXPECT_EQ(pool->num_bytes(), size_t{3 * 2 * 5 * kHeadBlockBytes});
  std::set<int64_t> offsets;
  for (int layer = 0; layer < 3; ++layer) {
    for (uint32_t kv_block = 0; kv_block < 5; ++kv_block) {
      for (int head = 0; head < 2; ++head) {
        offsets.insert(pool->Slice(layer, KvBlockId(kv_block), head) -
                       pool->layer_blocks(0));
      }
    }
  }
  ASSERT_EQ(offsets.size(), 30u);
  int64_t expected = 0;
  for (int64_t offset : offsets) {
    EXPECT_EQ(offset, expected);
    expected += kHeadBlockBytes;
  }
}

TEST_P(LayerBlockPoolTest, AStripIsTheHeadsOfOneLayerAndPage) {
  const Result<LayerBlockPool> pool =
      LayerBlockPool::Create(*backend_, Options(GetParam()));
  EXPECT_EQ(pool->Slice(2, KvBlockId(4), 1) - pool->Slice(2, KvBlockId(4), 0),
            kHeadBlockBytes);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LayerBlockPoolTest,
                         ::testing::Values(PoolLayout::kLayerMajor,
                                           PoolLayout::kKvBlockMajor));

TEST_F(LayerBlockPoolTest, ALayoutIsTwoNumbers) {
  const Result<LayerBlockPool> by_layer =
      LayerBlockPool::Create(*backend_, Options(PoolLayout::kLayerMajor));
  EXPECT_EQ(by_layer->kv_block_stride_bytes(), 2 * kHeadBlockBytes);
  EXPECT_EQ(by_layer->layer_stride_bytes(), 5 * 2 * kHeadBlockBytes);
  const Result<LayerBlockPool> by_kv_block =
      LayerBlockPool::Create(*backend_, Options(PoolLayout::kKvBlockMajor));
  EXPECT_EQ(by_kv_block->layer_stride_bytes(), 2 * kHeadBlockBytes);
  EXPECT_EQ(by_kv_block->kv_block_stride_bytes(), 3 * 2 * kHeadBlockBytes);
}

TEST_F(LayerBlockPoolTest, KvBlockBytesOfAKnownShape) {
  // 32 layers, 8 KV heads of 128 in bfloat16: 16 KiB a slice, 4 MiB a page.
  const HeadBlockFormat format =
      MakeHeadBlockFormat(Dtype::kBFloat16, 128, 128);
  EXPECT_EQ(KvBlockBytes(format, 32, 8), int64_t{4} << 20);
}

TEST_F(LayerBlockPoolTest, KvBlocksInABudget) {
  EXPECT_EQ(*KvBlocksIn(4096, 1024, "device-kv"), 4);
  EXPECT_EQ(*KvBlocksIn(4095, 1024, "device-kv"), 3);
  EXPECT_EQ(KvBlocksIn(1023, 1024, "device-kv").error().message,
            "device-kv must hold at least one page of 1.0 KiB, is 1023 B");
  EXPECT_EQ(KvBlocksIn(1023, 1024, "device-kv").error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(KvBlocksIn(int64_t{1} << 40, 64, "device-kv").error().message,
            "device-kv may hold at most 4294967294 pages of 64 B, is 1.0 TiB");
}

TEST_F(LayerBlockPoolTest, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  LayerBlockPoolOptions options = Options(PoolLayout::kLayerMajor);
  options.num_kv_blocks = 0xfffffffe;
  options.num_layers = 1 << 20;
  const Result<LayerBlockPool> pool =
      LayerBlockPool::Create(*backend_, options);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(pool.error().message.find("4294967294 pages of 3.0 GiB"),
            std::string::npos)
      << pool.error().message;
}

using LayerBlockPoolDeathTest = LayerBlockPoolTest;

TEST_F(LayerBlockPoolDeathTest, SlicesStayInside) {
  const Result<LayerBlockPool> pool =
      LayerBlockPool::Create(*backend_, Options(PoolLayout::kLayerMajor));
  EXPECT_DEATH((void)pool->Slice(3, KvBlockId(0), 0), "layer=3");
  EXPECT_DEATH((void)pool->Slice(0, KvBlockId(5), 0), "KV block=5");
  EXPECT_DEATH((void)pool->Slice(0, KvBlockId(0), 2), "head=2");
}

}  // namespace
}  // namespace winnow
