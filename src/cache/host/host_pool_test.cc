#include "cache/host/host_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"

namespace winnow {
namespace {

constexpr int64_t kKvBlockBytes = kNumLayers * kNumHeads * kHeadBlockBytes;
constexpr auto kToHost = TierCopy::Direction::kToHost;
constexpr auto kToDevice = TierCopy::Direction::kToDevice;

class HostPoolTest : public testing::TestWithParam<PoolLayout> {
 protected:
  static constexpr int64_t kNumDevice = 4, kNumHost = 7;

  void SetUp() override {
    Result<LayerBlockPool> device = LayerBlockPool::Create(
        *backend_, {.format = MakeHeadBlockFormat(Dtype::kFloat32, 4, 8),
                    .num_layers = kNumLayers,
                    .num_kv_heads = kNumHeads,
                    .num_kv_blocks = kNumDevice,
                    .layout = GetParam()});
    ASSERT_TRUE(device.ok());
    device_.emplace(std::move(device).value());
    // Pieces of three, three and one KV blocks.
    Result<std::unique_ptr<HostPool>> host = HostPool::Create(
        *backend_, *device_,
        {.num_kv_blocks = kNumHost, .max_piece_bytes = 4 * kKvBlockBytes - 1});
    ASSERT_TRUE(host.ok()) << host.error().message;
    host_ = std::move(host).value();
  }

  // Every slice of a page in its own bytes, by a number.
  std::byte ByteOf(int page, int layer, int head, int64_t at) const {
    return static_cast<std::byte>(page * 31 + layer * 7 + head * 3 + at % 251);
  }
  void WritePage(KvBlockId kv_block, int page) {
    ForEachByte(kv_block,
                [&](std::byte& byte, int layer, int head, int64_t at) {
                  byte = ByteOf(page, layer, head, at);
                });
  }
  void ExpectPage(KvBlockId kv_block, int page) {
    int64_t num_wrong = 0;
    ForEachByte(kv_block,
                [&](std::byte& byte, int layer, int head, int64_t at) {
                  num_wrong += byte != ByteOf(page, layer, head, at);
                });
    EXPECT_EQ(num_wrong, 0)
        << "KV block " << kv_block.value() << " page " << page;
  }
  template <typename Visit>
  void ForEachByte(KvBlockId kv_block, Visit visit) {
    for (int layer = 0; layer < kNumLayers; ++layer) {
      for (int head = 0; head < kNumHeads; ++head) {
        std::byte* slice = device_->Slice(layer, kv_block, head);
        for (int64_t at = 0; at < kHeadBlockBytes; ++at) {
          visit(slice[at], layer, head, at);
        }
      }
    }
  }
  void Apply(std::vector<TierCopy> copies) {
    host_->Apply(*queue_, copies);
    ASSERT_TRUE(
        backend_
            ->Wait(backend_->Record(*queue_), std::chrono::milliseconds(1000))
            .ok());
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  std::optional<LayerBlockPool> device_;
  std::unique_ptr<HostPool> host_;
};

TEST_P(HostPoolTest, APageComesBackAsItWentWhereverItLay) {
  for (uint32_t page = 0; page < kNumHost; ++page) {
    WritePage(KvBlockId(page % kNumDevice), static_cast<int>(page));
    Apply({{kToHost, KvBlockId(page % kNumDevice), KvBlockId(page)}});
  }
  for (uint32_t page = 0; page < kNumHost; ++page) {
    const KvBlockId kv_block((page + 1) % kNumDevice);
    Apply({{kToDevice, kv_block, KvBlockId(page)}});
    ExpectPage(kv_block, static_cast<int>(page));
  }
}

TEST_P(HostPoolTest, AnKvBlockIsOnePieceLayerByLayer) {
  WritePage(KvBlockId(2), 5);
  Apply({{kToHost, KvBlockId(2), KvBlockId(4)}});
  const View kv_block = host_->KvBlock(KvBlockId(4));
  ASSERT_EQ(kv_block.num_elements(), kKvBlockBytes);
  const auto* bytes = reinterpret_cast<const std::byte*>(kv_block.data);
  for (int64_t i = 0; i < kKvBlockBytes; ++i) {
    const int64_t slice = i / kHeadBlockBytes;
    ASSERT_EQ(bytes[i],
              ByteOf(5, static_cast<int>(slice / kNumHeads),
                     static_cast<int>(slice % kNumHeads), i % kHeadBlockBytes))
        << i;
  }
}

TEST_P(HostPoolTest, CopiesAreCarriedOutOneAfterTheOther) {
  WritePage(KvBlockId(0), 1);
  WritePage(KvBlockId(1), 2);
  Apply({{kToHost, KvBlockId(0), KvBlockId(3)},
         {kToDevice, KvBlockId(2), KvBlockId(3)},
         {kToHost, KvBlockId(1), KvBlockId(3)},
         {kToDevice, KvBlockId(0), KvBlockId(3)}});
  ExpectPage(KvBlockId(0), 2);
  ExpectPage(KvBlockId(1), 2);
  ExpectPage(KvBlockId(2), 1);
}

TEST_P(HostPoolTest, OtherKvBlocksStayAsTheyAre) {
  for (uint32_t i = 0; i < kNumDevice; ++i) {
    WritePage(KvBlockId(i), static_cast<int>(i));
    Apply({{kToHost, KvBlockId(i), KvBlockId(2 * i)}});
  }
  Apply({{kToDevice, KvBlockId(1), KvBlockId(6)}});
  for (uint32_t i = 0; i < kNumDevice; ++i) {
    ExpectPage(KvBlockId(i), i == 1 ? 3 : static_cast<int>(i));
    if (i != 1) Apply({{kToDevice, KvBlockId(i), KvBlockId(2 * i)}});
    ExpectPage(KvBlockId(i), i == 1 ? 3 : static_cast<int>(i));
  }
}

TEST_P(HostPoolTest, MemoryThatIsNotThereIsNamed) {
  const Result<std::unique_ptr<HostPool>> host =
      HostPool::Create(*backend_, *device_,
                       {.num_kv_blocks = (int64_t{1} << 60) / kKvBlockBytes,
                        .max_piece_bytes = int64_t{1} << 60});
  ASSERT_FALSE(host.ok());
  EXPECT_NE(host.error().message.find("host KV pool of "), std::string::npos)
      << host.error().message;
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostPoolTest,
                         testing::Values(PoolLayout::kLayerMajor,
                                         PoolLayout::kKvBlockMajor));

}  // namespace
}  // namespace winnow
