#include "cache/device/summary_cache.h"

#include <gtest/gtest.h>

#include <array>

#include "backend/cpu/cpu_backend.h"
#include "cache/testing/cache_case.h"

namespace winnow {
namespace {

constexpr int kNumSegments = 5;

class SummaryCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SelectProgram program;
    program.rows = {SummaryRows::Kind::kMean, 32, 16, Dtype::kFloat32};
    program.normalizer = {SummaryRows::Kind::kMean, 128, 64, Dtype::kFloat32};
    auto cache = SummaryCache::Create(
        *backend_, {.layout = MakeSummaryLayout(program, kKDim, kKDim),
                    .num_layers = kNumLayers,
                    .num_kv_heads = kNumHeads,
                    .num_segments = kNumSegments,
                    .max_requests = 2,
                    .num_table_entries = 4});
    ASSERT_TRUE(cache.ok()) << cache.error().message;
    cache_ = std::move(cache).value();
  }

  // Every channel of every row of a request's tokens [0, 2048).
  template <typename Visit>
  void ForEachNumber(int request, Visit visit) {
    int index = 0;
    for (int layer = 0; layer < kNumLayers; ++layer) {
      for (int head = 0; head < kNumHeads; ++head) {
        for (int level = 0; level < 2; ++level) {
          const int num_rows =
              level == 0 ? (2048 - 32) / 16 + 1 : (2048 - 128) / 64 + 1;
          for (int row = 0; row < num_rows; ++row) {
            auto* numbers = reinterpret_cast<float*>(
                cache_->layers()[static_cast<size_t>(layer)].Row(request, head,
                                                                 level, row));
            for (int c = 0; c < kKDim; ++c) visit(numbers[c], ++index);
          }
        }
      }
    }
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({});
  std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  std::unique_ptr<SummaryCache> cache_;
};

TEST_F(SummaryCacheTest, RowsHaveTheirOwnBytes) {
  const std::array<KvBlockId, 2> of_first = {KvBlockId(3), KvBlockId(0)};
  const std::array<KvBlockId, 2> of_second = {KvBlockId(1), KvBlockId(4)};
  const std::array<std::span<const KvBlockId>, 2> tables = {of_first,
                                                            of_second};
  cache_->WriteTables(*queue_, tables);
  for (const int request : {0, 1}) {
    ForEachNumber(request, [&](float& x, int index) {
      x = static_cast<float>(index * 2 + request);
    });
  }
  for (const int request : {0, 1}) {
    ForEachNumber(request, [&](float& x, int index) {
      ASSERT_EQ(x, static_cast<float>(index * 2 + request));
    });
  }
}

TEST_F(SummaryCacheTest, CopiesCarryAllOfASegment) {
  const std::array<KvBlockId, 2> original = {KvBlockId(3), KvBlockId(0)};
  const std::array<KvBlockId, 2> copied = {KvBlockId(3), KvBlockId(2)};
  const std::array<std::span<const KvBlockId>, 2> tables = {original, copied};
  cache_->WriteTables(*queue_, tables);
  ForEachNumber(0, [](float& x, int index) { x = static_cast<float>(index); });
  const std::array<KvBlockCopy, 1> copies = {
      {{KvBlockId(0), KvBlockId(2), 1000}}};
  cache_->Apply(*queue_, copies);
  ForEachNumber(
      1, [](float& x, int index) { ASSERT_EQ(x, static_cast<float>(index)); });
}

}  // namespace
}  // namespace winnow
