#include "trace/cost_model.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

// Llama-3.1-8B.
constexpr ModelSize kModel = {.num_weights = 7'504'658'432,
                              .num_layers = 32,
                              .num_kv_heads = 8,
                              .head_dim = 128};

RowWork WorkWith(double budget, double miss_share) {
  RowWork row;
  row.context_tokens = 128 << 10;
  row.read_tokens = budget;
  row.missed_tokens = budget * miss_share;
  row.slot_tokens = 3 * budget;
  row.summary_bytes = 128 * 2 / 32.0;  // a page's mean in bfloat16
  return row;
}

// docs/design.md section 4 has this table, made by hand of the same figures.
TEST(CostModelTest, GivesTheTableOfTheDesign) {
  const DeviceModel h200 = *DeviceModelOf("h200");
  struct Line {
    int64_t batch;
    double budget;
    double tpot_ms[4];  // at 0, 2, 5 and 13 % misses
  };
  for (const Line& line : {Line{1, 2048, {4.6, 4.6, 4.8, 5.2}},
                           Line{16, 2048, {6.6, 7.2, 9.7, 16.7}},
                           Line{64, 2048, {12.8, 15.3, 25.4, 53.4}},
                           Line{16, 8192, {9.7, 12.2, 22.2, 50.3}}}) {
    constexpr double kShares[] = {0, 0.02, 0.05, 0.13};
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(PredictStep(h200, kModel, WorkWith(line.budget, kShares[i]),
                              line.batch)
                      .tpot_ms,
                  line.tpot_ms[i], 0.04 * line.tpot_ms[i] + 0.1)
          << "batch " << line.batch << " budget " << line.budget << " misses "
          << kShares[i];
    }
  }
}

TEST(CostModelTest, HintsAreFreeUntilTheLinkIsBusy) {
  const DeviceModel h200 = *DeviceModelOf("h200");
  RowWork row = WorkWith(2048, 0.01);
  const double without = PredictStep(h200, kModel, row, 16).tpot_ms;
  row.hinted_tokens = row.missed_tokens;
  EXPECT_EQ(PredictStep(h200, kModel, row, 16).tpot_ms, without);
  row.hinted_tokens = 100 * row.missed_tokens;
  const PredictedStep busy = PredictStep(h200, kModel, row, 16);
  EXPECT_GT(busy.hint_excess_ms, 0);
  EXPECT_NEAR(busy.tpot_ms, without + busy.hint_excess_ms, 1e-9);
}

TEST(CostModelTest, ARequestIsItsSlotsDenseLayersOpenPageAndSummaries) {
  RowWork row = WorkWith(2048, 0);
  row.dense_layers = 2;
  const double token = 4 * 128 * 8;
  const double expected = 30 * 3 * 2048 * token + 2 * 131072 * token +
                          32 * 32 * token + 30 * 8 * 8 * 131072.0;
  EXPECT_NEAR(RequestBytes(kModel, row), expected, 1);
  const DeviceModel h200 = *DeviceModelOf("h200");
  const double left = 0.9 * 140.4 * (1 << 30) - 2.0 * kModel.num_weights;
  EXPECT_EQ(RequestsThatFit(h200, kModel, row),
            static_cast<int64_t>(left / expected));
  EXPECT_EQ(RequestsThatFit({.name = "small", .memory_gib = 8}, kModel, row),
            0);
  EXPECT_NEAR(RestoreFromDiskMs(h200, kModel, row),
              131072 * 32 * token / 2.9e9 * 1e3, 1);
}

TEST(CostModelTest, AnUnknownDeviceIsNamed) {
  EXPECT_EQ(DeviceModelOf("h100").error().message,
            "--device-model must be one of h200, a100-40gb, rtx-4090, is "
            "\"h100\"");
}

}  // namespace
}  // namespace winnow
