#include "cache/host/host_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"

namespace winnow {
namespace {

constexpr int64_t kExtentBytes = kNumLayers * kNumHeads * kSliceBytes;
constexpr auto kToHost = TierCopy::Direction::kToHost;
constexpr auto kToDevice = TierCopy::Direction::kToDevice;

class HostPoolTest : public testing::TestWithParam<PoolLayout> {
 protected:
  static constexpr int64_t kNumDevice = 4, kNumHost = 7;

  void SetUp() override {
    Result<StripPool> device = StripPool::Create(
        *backend_, {.format = MakeSliceFormat(Dtype::kFloat32, 4, 8),
                    .num_layers = kNumLayers,
                    .num_kv_heads = kNumHeads,
                    .num_extents = kNumDevice,
                    .layout = GetParam()});
    ASSERT_TRUE(device.ok());
    device_.emplace(std::move(device).value());
    // Pieces of three, three and one extents.
    Result<std::unique_ptr<HostPool>> host = HostPool::Create(
        *backend_, *device_,
        {.num_extents = kNumHost, .max_piece_bytes = 4 * kExtentBytes - 1});
    ASSERT_TRUE(host.ok()) << host.error().message;
    host_ = std::move(host).value();
  }

  // Every slice of a page in its own bytes, by a number.
  std::byte ByteOf(int page, int layer, int head, int64_t at) const {
    return static_cast<std::byte>(page * 31 + layer * 7 + head * 3 + at % 251);
  }
  void WritePage(ExtentId extent, int page) {
    ForEachByte(extent, [&](std::byte& byte, int layer, int head, int64_t at) {
      byte = ByteOf(page, layer, head, at);
    });
  }
  void ExpectPage(ExtentId extent, int page) {
    int64_t num_wrong = 0;
    ForEachByte(extent, [&](std::byte& byte, int layer, int head, int64_t at) {
      num_wrong += byte != ByteOf(page, layer, head, at);
    });
    EXPECT_EQ(num_wrong, 0) << "extent " << extent.value() << " page " << page;
  }
  template <typename Visit>
  void ForEachByte(ExtentId extent, Visit visit) {
    for (int layer = 0; layer < kNumLayers; ++layer) {
      for (int head = 0; head < kNumHeads; ++head) {
        std::byte* slice = device_->Slice(layer, extent, head);
        for (int64_t at = 0; at < kSliceBytes; ++at) {
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
  std::optional<StripPool> device_;
  std::unique_ptr<HostPool> host_;
};

TEST_P(HostPoolTest, APageComesBackAsItWentWhereverItLay) {
  for (uint32_t page = 0; page < kNumHost; ++page) {
    WritePage(ExtentId(page % kNumDevice), static_cast<int>(page));
    Apply({{kToHost, ExtentId(page % kNumDevice), ExtentId(page)}});
  }
  for (uint32_t page = 0; page < kNumHost; ++page) {
    const ExtentId extent((page + 1) % kNumDevice);
    Apply({{kToDevice, extent, ExtentId(page)}});
    ExpectPage(extent, static_cast<int>(page));
  }
}

TEST_P(HostPoolTest, AnExtentIsOnePieceLayerByLayer) {
  WritePage(ExtentId(2), 5);
  Apply({{kToHost, ExtentId(2), ExtentId(4)}});
  const View extent = host_->Extent(ExtentId(4));
  ASSERT_EQ(extent.num_elements(), kExtentBytes);
  const auto* bytes = reinterpret_cast<const std::byte*>(extent.data);
  for (int64_t i = 0; i < kExtentBytes; ++i) {
    const int64_t slice = i / kSliceBytes;
    ASSERT_EQ(bytes[i],
              ByteOf(5, static_cast<int>(slice / kNumHeads),
                     static_cast<int>(slice % kNumHeads), i % kSliceBytes))
        << i;
  }
}

TEST_P(HostPoolTest, CopiesAreCarriedOutOneAfterTheOther) {
  WritePage(ExtentId(0), 1);
  WritePage(ExtentId(1), 2);
  Apply({{kToHost, ExtentId(0), ExtentId(3)},
         {kToDevice, ExtentId(2), ExtentId(3)},
         {kToHost, ExtentId(1), ExtentId(3)},
         {kToDevice, ExtentId(0), ExtentId(3)}});
  ExpectPage(ExtentId(0), 2);
  ExpectPage(ExtentId(1), 2);
  ExpectPage(ExtentId(2), 1);
}

TEST_P(HostPoolTest, OtherExtentsStayAsTheyAre) {
  for (uint32_t i = 0; i < kNumDevice; ++i) {
    WritePage(ExtentId(i), static_cast<int>(i));
    Apply({{kToHost, ExtentId(i), ExtentId(2 * i)}});
  }
  Apply({{kToDevice, ExtentId(1), ExtentId(6)}});
  for (uint32_t i = 0; i < kNumDevice; ++i) {
    ExpectPage(ExtentId(i), i == 1 ? 3 : static_cast<int>(i));
    if (i != 1) Apply({{kToDevice, ExtentId(i), ExtentId(2 * i)}});
    ExpectPage(ExtentId(i), i == 1 ? 3 : static_cast<int>(i));
  }
}

TEST_P(HostPoolTest, MemoryThatIsNotThereIsNamed) {
  const Result<std::unique_ptr<HostPool>> host =
      HostPool::Create(*backend_, *device_,
                       {.num_extents = (int64_t{1} << 60) / kExtentBytes,
                        .max_piece_bytes = int64_t{1} << 60});
  ASSERT_FALSE(host.ok());
  EXPECT_NE(host.error().message.find("host KV pool of "), std::string::npos)
      << host.error().message;
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostPoolTest,
                         testing::Values(PoolLayout::kLayerMajor,
                                         PoolLayout::kExtentMajor));

}  // namespace
}  // namespace winnow
