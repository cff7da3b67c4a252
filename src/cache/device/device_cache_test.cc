#include "cache/device/device_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"
#include "kv/kv_cache.h"

namespace winnow {
namespace {

constexpr int kNumKvBlocks = 6;

class DeviceCacheTest : public ::testing::TestWithParam<PoolLayout> {
 protected:
  void SetUp() override {
    const DeviceCacheOptions options = {
        .format = MakeHeadBlockFormat(Dtype::kFloat32, kKDim, kVDim),
        .num_layers = kNumLayers,
        .num_kv_heads = kNumHeads,
        .num_kv_blocks = kNumKvBlocks,
        .max_requests = 2,
        .max_pages_per_request = 4,
        .num_table_pages = 12,
        .layout = GetParam()};
    Result<std::unique_ptr<DeviceCache>> cache =
        DeviceCache::Create(*backend_, options);
    ASSERT_TRUE(cache.ok()) << cache.error().message;
    cache_ = std::move(cache).value();
  }

  // K (or V) of one token, as an op finds it through the tables.
  float* Token(int layer, int request, int head, int token, bool is_v) {
    const LayerCache& cache = cache_->layers()[static_cast<size_t>(layer)];
    const uint32_t kv_block =
        cache.page_table.Row(request)[token / kPageTokens];
    auto* slice = reinterpret_cast<float*>(cache.Slice(kv_block, head));
    const int offset = token % kPageTokens;
    return is_v ? slice + kPageTokens * kKDim + offset * kVDim
                : slice + offset * kKDim;
  }

  // A number that only this token of this request has here.
  static float Mark(int layer, int request, int head, int token, bool is_v) {
    return static_cast<float>(
        (((request * kNumLayers + layer) * kNumHeads + head) * 128 + token) *
            2 +
        is_v);
  }

  template <typename Visit>
  void ForEachPlace(int begin, int end, Visit visit) {
    for (int layer = 0; layer < kNumLayers; ++layer) {
      for (int head = 0; head < kNumHeads; ++head) {
        for (int token = begin; token < end; ++token) {
          visit(layer, head, token, false);
          visit(layer, head, token, true);
        }
      }
    }
  }

  // Plays Append: `as` says whose numbers are written into a request's row.
  void WriteTokens(int request, int as, int begin, int end) {
    ForEachPlace(begin, end, [&](int layer, int head, int token, bool is_v) {
      float* place = Token(layer, request, head, token, is_v);
      std::fill_n(place, is_v ? kVDim : kKDim,
                  Mark(layer, as, head, token, is_v));
    });
  }
  void ExpectTokens(int request, int as, int begin, int end) {
    ForEachPlace(begin, end, [&](int layer, int head, int token, bool is_v) {
      const float* place = Token(layer, request, head, token, is_v);
      const int size = is_v ? kVDim : kKDim;
      for (int i = 0; i < size; ++i) {
        ASSERT_EQ(place[i], Mark(layer, as, head, token, is_v))
            << "layer " << layer << " head " << head << " token " << token;
      }
    });
  }

  // Reserves one sequence's tokens, carries out the copies, shows the tables.
  void Step(KvCache& kv, std::vector<Growth> growths) {
    std::optional<Reservation> reservation = kv.Reserve(growths);
    ASSERT_TRUE(reservation);
    cache_->Apply(*queue_, reservation->copies());
    reservation->Commit();
    std::vector<std::span<const KvBlockId>> pages;
    for (const Growth& growth : growths) {
      kv.Seal(growth.sequence, kv.num_tokens(growth.sequence));
      pages.push_back(kv.pages(growth.sequence));
    }
    cache_->WriteTables(*queue_, pages);
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  std::unique_ptr<DeviceCache> cache_;
};

TEST_P(DeviceCacheTest, LayersLeadToThePool) {
  ASSERT_EQ(cache_->layers().size(), size_t{kNumLayers});
  for (int layer = 0; layer < kNumLayers; ++layer) {
    const LayerCache& cache = cache_->layers()[static_cast<size_t>(layer)];
    EXPECT_EQ(cache.num_kv_heads, kNumHeads);
    for (uint32_t kv_block = 0; kv_block < kNumKvBlocks; ++kv_block) {
      for (int head = 0; head < kNumHeads; ++head) {
        EXPECT_EQ(cache.Slice(kv_block, head),
                  cache_->pool().Slice(layer, KvBlockId(kv_block), head));
      }
    }
  }
  constexpr size_t kPoolBytes = size_t{kNumLayers * kNumHeads * kNumKvBlocks} *
                                kPageTokens * (kKDim + kVDim) * 4;
  EXPECT_EQ(cache_->num_bytes(), kPoolBytes + (2 + 12) * sizeof(uint32_t));
}

// What kv/ decides and cache/ carries out, together: two branches of one
// sequence write the same page apart.
TEST_P(DeviceCacheTest, AForkedTailIsCopiedInAllLayersAndHeads) {
  constexpr SequenceId kParent(1), kChild(2);
  KvCache kv(kNumKvBlocks);
  kv.Open(kParent);
  Step(kv, {{kParent, 40}});
  WriteTokens(/*request=*/0, /*as=*/0, 0, 40);
  kv.Fork(kParent, kChild);
  Step(kv, {{kChild, 10}, {kParent, 10}});  // rows are the step's, not theirs
  WriteTokens(/*request=*/0, /*as=*/1, 40, 50);
  WriteTokens(/*request=*/1, /*as=*/0, 40, 50);
  ExpectTokens(/*request=*/0, /*as=*/0, 0, 40);
  ExpectTokens(/*request=*/0, /*as=*/1, 40, 50);
  ExpectTokens(/*request=*/1, /*as=*/0, 0, 50);
  kv.Close(kParent);
  kv.Close(kChild);
}

INSTANTIATE_TEST_SUITE_P(Layouts, DeviceCacheTest,
                         ::testing::Values(PoolLayout::kLayerMajor,
                                           PoolLayout::kKvBlockMajor));

using DeviceCacheDeathTest = DeviceCacheTest;

TEST_P(DeviceCacheDeathTest, ABugStopsTheProgram) {
  const std::vector<KvBlockCopy> outside = {{KvBlockId(0), KvBlockId(6), 1}};
  EXPECT_DEATH(cache_->Apply(*queue_, outside), "from=0 to=6 num_kv_blocks=6");
  const std::vector<KvBlockCopy> many(3);
  EXPECT_DEATH(cache_->Apply(*queue_, many), "copies=3 max_requests=2");
}

INSTANTIATE_TEST_SUITE_P(LayerMajor, DeviceCacheDeathTest,
                         ::testing::Values(PoolLayout::kLayerMajor));

}  // namespace
}  // namespace winnow
