#include "bench/ops/bench_device_ops.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "bench/bench_requests.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Some of the rows.
constexpr const char* kOps[] = {
    "Linear, norm + QKV, 1 rows",
    "Linear, all of a layer, 64 rows",
    "Linear, all of a layer, 96 rows",
    "Attend, decode, 512 tokens x 16",
    "Attend, decode, 2048 tokens x 1",
    "Attend, picks of mean 32, 2048 tokens x 64",
    "Select, mean 32, 2048 tokens x 16",
    "Select, quest 32, 2048 tokens x 1",
    "Select, seerattention-r 32, 2048 tokens x 16",
    "Summarize, all of seerattention-r 32, 2048 tokens x 1",
    "Select, retroinfer 32, 2048 tokens x 16",
    "Attend, picks of retroinfer 32, 2048 tokens x 1",
    "Attend, estimates of retroinfer 32, 2048 tokens x 16",
    "MergeStates, 16 rows",
    "ClusterKeys, all of retroinfer 32, 2048 tokens x 1",
    "Select, snapkv 32, 2048 tokens x 16",
    "Summarize, the choice of shadowkv 32, 2048 tokens x 1",
    "Select with next ranks, mean 32, 2048 tokens x 16",
    "Attend, prompt, 128 tokens, head_dim 16",
    "Append + Summarize, mean, 16 rows",
    "RmsNorm, 16 rows",
    "GatedAct, 96 rows",
    "Embed, 16 rows",
    "Attend, decode, 512 tokens x 16, block-major",
    "Select, mean 32, 512 tokens x 16, summaries paged",
    "Attend, picks of mean 32, 512 tokens x 16, summaries beside KV"};

// The same code that measures a GPU, on the CPU.
class BenchDeviceOpsTest : public testing::Test {
 protected:
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
};

TEST_F(BenchDeviceOpsTest, EveryOpHasARowWithItsRoof) {
  const auto model = LoadTinyModel(ReadTinyCase("llama"), Dtype::kBFloat16);
  auto shown = nlohmann::ordered_json::array();
  const auto report =
      MeasureDeviceOps(*backend_, *model,
                       {.rounds = 1,
                        .decode_context = 512,
                        .prompt_context = 256,
                        .chunk_rows = 96,
                        .round_bytes = 1 << 16,
                        .layouts = true,
                        .roofs = {.copied_bytes = 1 << 16, .product_rows = 32},
                        .on_row =
                            [&](const nlohmann::ordered_json& row) {
                              shown.push_back(row);
                              return Status(Ok{});
                            }})
          .value();
  std::set<std::string> ops;
  for (const auto& row : report["verbs"]) {
    const std::string op = row["verb"];
    EXPECT_TRUE(ops.insert(op).second) << op;
    EXPECT_GT(row["us"].get<double>(), 0) << op;
    EXPECT_GT(row["bytes"].get<double>(), 0) << op;
    EXPECT_GT(row["share_of_roof"].get<double>(), 0) << op;
    EXPECT_EQ(row["roof"] == "products", row["share_of_roof"].get<double>() ==
                                             row["share_of_product_roof"])
        << op;
  }
  for (const char* name : kOps) {
    EXPECT_TRUE(ops.contains(name)) << name;
  }
  EXPECT_EQ(report["copied_bytes"], 2 << 16);
  EXPECT_NE(DeviceOpsRoofs(report).find("of 64.0 KiB to as much"),
            std::string::npos)
      << DeviceOpsRoofs(report);
  EXPECT_EQ(shown, report["verbs"]);
  EXPECT_TRUE(DeviceOpsLine(shown[0]).starts_with("Linear, norm + QKV"));
}

// What is written beside a time is what the ops must touch.
TEST_F(BenchDeviceOpsTest, BytesAreThoseOfTheShape) {
  BenchRequests::Shape shape = {.num_q_heads = 4,
                                .num_kv_heads = 2,
                                .head_dim = 16,
                                .batch = 3,
                                .context_tokens = 1024,
                                .num_layers = 2,
                                .select = "mean:budget=128"};
  const auto bench = BenchRequests::Create(*backend_, shape).value();
  constexpr double kHeadBytes = 16 * 2;
  EXPECT_EQ(BenchRequests::LayerBytes(shape), 3 * 1024 * 2 * 2 * kHeadBytes);
  EXPECT_EQ(bench->kv_bytes(), 3 * 1024 * 2 * 2 * kHeadBytes);
  // Means of 32 pages in bfloat16.
  EXPECT_EQ(bench->summary_bytes(), 3 * 2 * 32 * kHeadBytes);
  EXPECT_EQ(bench->read_flops(), 4.0 * 3 * 1024 * 4 * 16);
  for (int layer = 0; layer < 2; ++layer) {
    bench->Select(layer);
    // What is forced is read besides the budget.
    const double picked = bench->PickedBytes().value();
    EXPECT_GE(picked, 3 * 128 * 2 * 2 * kHeadBytes);
    EXPECT_LT(picked, 3 * 512 * 2 * 2 * kHeadBytes);
  }
  shape.prefill_rows = true;
  shape.select.clear();
  const auto prompt = BenchRequests::Create(*backend_, shape).value();
  EXPECT_EQ(prompt->read_flops(), 4.0 * 3 * (1024 * 1025 / 2) * 4 * 16);
}

// Whatever the layout, no two things lie in one place.
TEST_F(BenchDeviceOpsTest, EveryLayoutHasRoomForAllThatItHolds) {
  using PoolOrder = BenchRequests::PoolOrder;
  using ValuePlace = BenchRequests::ValuePlace;
  using SummaryPlace = BenchRequests::SummaryPlace;
  constexpr int kBatch = 2, kLayers = 3, kHeads = 2, kTokens = 1100;
  constexpr int64_t kPartBytes = int64_t{kPageTokens} * 16 * 2;  // K or V
  const int64_t num_pages = PagesFor(kTokens);
  const BenchRequests::Shape shape = {.num_q_heads = 4,
                                      .num_kv_heads = kHeads,
                                      .head_dim = 16,
                                      .batch = kBatch,
                                      .context_tokens = kTokens,
                                      .num_layers = kLayers,
                                      .select = "mean:budget=128"};
  std::vector<BenchRequests::Shape> layouts;
  for (const PoolOrder order :
       {PoolOrder::kLayerMajor, PoolOrder::kKvBlockMajor}) {
    for (const SummaryPlace place :
         {SummaryPlace::kSegments, SummaryPlace::kPages,
          SummaryPlace::kBesideKv}) {
      layouts.push_back(shape);
      layouts.back().pool_order = order;
      layouts.back().summary_place = place;
    }
  }
  layouts.push_back(shape);
  layouts.back().value_place = ValuePlace::kApart;
  for (const BenchRequests::Shape& layout : layouts) {
    const auto bench = BenchRequests::Create(*backend_, layout).value();
    std::map<const std::byte*, int64_t> pieces;
    for (int layer = 0; layer < kLayers; ++layer) {
      const LayerCache cache = bench->CacheOf(layer);
      const SummaryTable summaries = bench->SelectorOf(layer).summaries;
      for (int request = 0; request < kBatch; ++request) {
        for (int head = 0; head < kHeads; ++head) {
          for (int64_t page = 0; page < num_pages; ++page) {
            const std::byte* const slice =
                cache.Slice(cache.page_table.Row(request)[page], head);
            pieces[slice] = kPartBytes;
            pieces[slice + cache.format.v_offset_bytes] = kPartBytes;
            // The last page is not full: it has no row.
            if (page + 1 == num_pages) continue;
            pieces[summaries.Row(request, head, 0, page)] =
                summaries.layout.levels[0].row_bytes;
          }
        }
      }
    }
    EXPECT_EQ(std::ssize(pieces),
              kLayers * kBatch * kHeads * (3 * num_pages - 1));
    const std::byte* end = nullptr;
    for (const auto& [data, num_bytes] : pieces) {
      EXPECT_GE(data, end);
      end = data + num_bytes;
    }
    bench->Select(kLayers - 1);
    bench->ReadPicks(kLayers - 1);
    EXPECT_GE(bench->PickedBytes().value(), kBatch * kHeads * 128 * 2 * 32);
  }
}

}  // namespace
}  // namespace winnow
