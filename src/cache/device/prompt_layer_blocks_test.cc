#include "cache/device/prompt_layer_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"

namespace winnow {
namespace {

constexpr int kHidden = 24;

class PromptLayerBlocksTest : public testing::TestWithParam<PoolLayout> {
 protected:
  void SetUp() override {
    const HeadBlockFormat format = MakeHeadBlockFormat(Dtype::kBFloat16, 4, 4);
    pool_ = std::make_unique<LayerBlockPool>(
        LayerBlockPool::Create(*backend_, {.format = format,
                                           .num_layers = kNumLayers,
                                           .num_kv_heads = kNumHeads,
                                           .num_kv_blocks = 6,
                                           .layout = GetParam()})
            .value());
    host_ = HostPool::Create(*backend_, *pool_, {.num_kv_blocks = 5}).value();
    std::memset(pool_->layer_blocks(0), 0, pool_->num_bytes());
    for (uint32_t i = 0; i < 5; ++i) {
      std::memset(host_->KvBlock(KvBlockId(i)).data, 0,
                  static_cast<size_t>(host_->kv_block_bytes()));
    }
    layer_blocks_ =
        PromptLayerBlocks::Create(
            *backend_, *pool_, *host_,
            {.max_requests = 2,
             .max_pages_per_request = 8,
             .num_table_pages = 24,
             .row_bytes = kHidden * static_cast<int64_t>(sizeof(float))})
            .value();
  }
  void Wait() {
    ASSERT_TRUE(
        backend_->Wait(backend_->Record(*queue_), std::chrono::minutes(1))
            .ok());
  }
  // Where an op finds a page of the first request.
  std::byte* Page(int layer, int64_t page) {
    const LayerCache& cache =
        layer_blocks_->layers()[static_cast<size_t>(layer)];
    return cache.Slice(cache.page_table.Row(0)[page], 0);
  }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  const std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  std::unique_ptr<LayerBlockPool> pool_;
  std::unique_ptr<HostPool> host_;
  std::unique_ptr<PromptLayerBlocks> layer_blocks_;
  const std::vector<KvBlockId> hosts_ = {KvBlockId(4), KvBlockId(0),
                                         KvBlockId(2)};
  const std::vector<KvBlockId> whole_ = {KvBlockId(3)};
  const std::vector<KvBlockId> lent_ = {KvBlockId(1), KvBlockId(2),
                                        KvBlockId(5)};
  const PromptPlaces places_ = {
      .hosts = hosts_, .whole = whole_, .lent = lent_};
};

// What fits the first three pages of a layer leaves with the layer's number,
// and the last page is written where its KV block has that layer.
TEST_P(PromptLayerBlocksTest, ALayerLeavesBeforeTheNextIsWritten) {
  const auto layer_block_bytes =
      static_cast<size_t>(pool_->layer_block_bytes());
  for (int layer = 0; layer < kNumLayers; ++layer) {
    layer_blocks_->WriteTables(*queue_, layer, std::array{places_});
    Wait();
    for (int page = 0; page < 4; ++page) {
      std::memset(Page(layer, page), 16 * layer + page + 1, layer_block_bytes);
    }
    // Its second page ends in the second chunk.
    layer_blocks_->CopyToHost(*queue_, places_, layer, 0, 50);
    layer_blocks_->CopyToHost(*queue_, places_, layer, 50, 4 * kPageTokens);
    Wait();
  }
  for (int layer = 0; layer < kNumLayers; ++layer) {
    for (size_t page = 0; page < 3; ++page) {
      const std::byte* bytes = host_->KvBlock(hosts_[page]).data +
                               static_cast<size_t>(layer) * layer_block_bytes;
      const auto expected =
          static_cast<std::byte>(16 * layer + static_cast<int>(page) + 1);
      EXPECT_EQ(std::count(bytes, bytes + layer_block_bytes, expected),
                static_cast<int64_t>(layer_block_bytes));
    }
    EXPECT_EQ(*pool_->Slice(layer, whole_[0], 0),
              static_cast<std::byte>(16 * layer + 4));
  }
  // Nobody else's.
  EXPECT_EQ(*host_->KvBlock(KvBlockId(1)).data, std::byte{0});
  for (const uint32_t kv_block : {0u, 4u}) {
    for (int layer = 0; layer < kNumLayers; ++layer) {
      EXPECT_EQ(*pool_->Slice(layer, KvBlockId(kv_block), 0), std::byte{0});
    }
  }
}

// A page that is filled by two chunks leaves with the second, whole.
TEST_P(PromptLayerBlocksTest, APageLeavesWhenItIsFull) {
  layer_blocks_->WriteTables(*queue_, 0, std::array{places_});
  Wait();
  std::memset(Page(0, 0), 7, 1);
  layer_blocks_->CopyToHost(*queue_, places_, 0, 0, 31);
  Wait();
  EXPECT_EQ(*host_->KvBlock(hosts_[0]).data, std::byte{0});
  layer_blocks_->CopyToHost(*queue_, places_, 0, 31, 32);
  Wait();
  EXPECT_EQ(*host_->KvBlock(hosts_[0]).data, std::byte{7});
}

// Of what is cached each layer comes when it is its turn.
TEST_P(PromptLayerBlocksTest, WhatIsCachedComesNearLayerByLayer) {
  const auto layer_block_bytes =
      static_cast<size_t>(pool_->layer_block_bytes());
  for (int layer = 0; layer < kNumLayers; ++layer) {
    for (size_t page = 0; page < 3; ++page) {
      std::memset(host_->KvBlock(hosts_[page]).data +
                      static_cast<size_t>(layer) * layer_block_bytes,
                  16 * layer + static_cast<int>(page) + 1, layer_block_bytes);
    }
  }
  for (int layer = 0; layer < kNumLayers; ++layer) {
    layer_blocks_->WriteTables(*queue_, layer, std::array{places_});
    layer_blocks_->CopyFromHost(*queue_, places_, layer, 2);
    Wait();
    for (int page = 0; page < 2; ++page) {
      const std::byte* bytes = Page(layer, page);
      EXPECT_EQ(std::count(bytes, bytes + layer_block_bytes,
                           static_cast<std::byte>(16 * layer + page + 1)),
                static_cast<int64_t>(layer_block_bytes));
    }
    EXPECT_EQ(*Page(layer, 2), std::byte{0});
  }
}

// Rows come back as they went, whatever their chunks, and touch no page.
TEST_P(PromptLayerBlocksTest, RowsLieBehindThePages) {
  constexpr int kRows = 61;
  std::mt19937 random(1);
  std::vector<float> rows(kRows * kHidden), got(rows.size());
  for (float& value : rows) value = static_cast<float>(random());
  layer_blocks_->WriteTables(*queue_, 0, std::array{places_});
  Wait();
  const auto chunk = [&](std::vector<float>& of, int first, int end) {
    return MakeView(of.data() + static_cast<size_t>(first) * kHidden,
                    Dtype::kFloat32, {end - first, kHidden});
  };
  for (const auto& [first, end] : {std::pair(40, kRows), std::pair(0, 40)}) {
    layer_blocks_->StoreRows(*queue_, places_, first, chunk(rows, first, end));
  }
  for (const auto& [first, end] :
       {std::pair(0, 7), std::pair(7, 60), std::pair(60, kRows)}) {
    layer_blocks_->LoadRows(*queue_, places_, first, chunk(got, first, end));
  }
  Wait();
  EXPECT_EQ(got, rows);
  for (int page = 0; page < 4; ++page) {
    const std::byte* bytes = Page(0, page);
    EXPECT_EQ(
        std::count(bytes, bytes + pool_->layer_block_bytes(), std::byte{0}),
        pool_->layer_block_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, PromptLayerBlocksTest,
                         testing::Values(PoolLayout::kLayerMajor,
                                         PoolLayout::kKvBlockMajor));

}  // namespace
}  // namespace winnow
