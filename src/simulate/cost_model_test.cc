#include "simulate/cost_model.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

// Llama-3.1-8B.
constexpr ModelSize kModel = {.num_weights = 7'504'658'432,
                              .num_layers = 32,
                              .num_kv_heads = 8,
                              .head_dim = 128,
                              .hidden_size = 4096,
                              .num_q_heads = 32};

RowWork WorkWith(double budget, double miss_share) {
  RowWork row;
  row.context_tokens = 128 << 10;
  row.read_tokens = budget;
  row.missed_tokens = budget * miss_share;
  row.slot_tokens = 3 * budget;
  row.summary_bytes = 128 * 2 / 32.0;  // a page's mean in bfloat16
  return row;
}

// docs/tiers.md has this table, made by hand of the same figures.
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
  DeviceModel h200 = *DeviceModelOf("h200");
  EXPECT_NEAR(RequestBytes(h200, kModel, row), expected, 1);
  EXPECT_NEAR(HostBytes(kModel, row), 32 * 131072 * token, 1);
  EXPECT_EQ(
      RequestsThatFit(h200, kModel, row),
      static_cast<int64_t>(0.9 * 128 * (1 << 30) / (32 * 131072 * token)));
  h200.host_gib = 1e6;
  const double left = 0.9 * 140.4 * (1 << 30) - 2.0 * kModel.num_weights;
  EXPECT_EQ(RequestsThatFit(h200, kModel, row),
            static_cast<int64_t>(left / expected));
  EXPECT_EQ(RequestsThatFit({.name = "small", .memory_gib = 8, .host_gib = 128},
                            kModel, row),
            0);
}

// What is said to be needed suffices, and a little less does not.
TEST(CostModelTest, WhatIsNeededIsWhatFits) {
  for (const char* name : {"h200", "a100-40gb", "rtx-4090", "h200x8"}) {
    for (const int64_t batch : {1, 7, 256}) {
      for (const bool whole : {false, true}) {
        DeviceModel device = *DeviceModelOf(name);
        const RowWork row =
            whole ? WholeWork(WorkWith(2048, 0.1)) : WorkWith(2048, 0.1);
        const MemoryNeed need = NeedOf(device, kModel, row, batch);
        device.memory_gib = need.device_gib * (1 + 1e-9);
        device.host_gib = need.host_gib * (1 + 1e-9);
        EXPECT_TRUE(need.fits(device));
        EXPECT_EQ(RequestsThatFit(device, kModel, row), batch);
        EXPECT_EQ(need.host_gib == 0, whole);
        device.memory_gib = need.device_gib * (1 - 1e-9);
        EXPECT_FALSE(need.fits(device));
        EXPECT_EQ(RequestsThatFit(device, kModel, row), batch - 1);
        device.memory_gib *= 2;
        device.host_gib = need.host_gib * (1 - 1e-9);
        EXPECT_EQ(need.fits(device), whole);
      }
    }
  }
}

TEST(CostModelTest, WhatIsWholeMissesNothing) {
  const RowWork whole = WholeWork(WorkWith(2048, 0.1));
  EXPECT_EQ(whole.hit_rate(), 1);
  EXPECT_EQ(whole.slot_tokens, 128 << 10);
  EXPECT_EQ(HostBytes(kModel, whole), 0);
  const DeviceModel h200 = *DeviceModelOf("h200");
  EXPECT_EQ(PredictStep(h200, kModel, whole, 16).tpot_ms,
            PredictStep(h200, kModel, WorkWith(2048, 0), 16).tpot_ms);
}

// Tokens of 64 bfloat16 numbers, K and V apart: 8 of them are 1 KiB each.
TEST(CostModelTest, SmallPiecesTakeTheirShareOfTheLink) {
  ModelSize small = kModel;
  small.head_dim = 64;
  for (const char* name : {"h200", "rtx-4090"}) {
    const DeviceModel device = *DeviceModelOf(name);
    const auto share = [&](const ModelSize& model, int tokens) {
      return PieceLinkGbS(device, model, tokens) / device.link_gb_s;
    };
    EXPECT_NEAR(share(small, 4), 0.30, 0.01);
    EXPECT_NEAR(share(small, 8), 0.58, 0.01);
    EXPECT_EQ(share(small, 16), 1);
    EXPECT_EQ(share(kModel, 8), 1);
    EXPECT_NEAR(share(small, 12), (0.572 + 1) / 2, 1e-3);
    EXPECT_NEAR(share(small, 2), share(small, 4) / 2, 1e-9);
  }
  const DeviceModel h200 = *DeviceModelOf("h200");
  RowWork row = WorkWith(2048, 0.1);
  const PredictedStep pages = PredictStep(h200, small, row, 16);
  row.piece_tokens = 16;
  EXPECT_EQ(PredictStep(h200, small, row, 16).link_ms, pages.link_ms);
  row.piece_tokens = 8;
  EXPECT_NEAR(PredictStep(h200, small, row, 16).link_ms,
              pages.link_ms * 51.4 / 29.4, 1e-9);
  // Hints take the link as long as misses of the same size do.
  row.hinted_tokens = 1e6;
  const double slow = PredictStep(h200, small, row, 1).hint_excess_ms;
  row.piece_tokens = 16;
  EXPECT_GT(slow, 1.5 * PredictStep(h200, small, row, 1).hint_excess_ms);
}

// Eight of a card with an eighth of the work each, and the sums over them.
TEST(CostModelTest, GpusShareWeightsAndHeadsAndSumTheirRows) {
  DeviceModel node = *DeviceModelOf("h200x8");
  const DeviceModel one = *DeviceModelOf("h200");
  RowWork row = WorkWith(2048, 0.05);
  row.dense_layers = 2;
  row.hinted_tokens = 1;
  const PredictedStep whole = PredictStep(one, kModel, row, 64);
  const PredictedStep shared = PredictStep(node, kModel, row, 64);
  EXPECT_NEAR(shared.products_ms, whole.products_ms / 8, 1e-9);
  EXPECT_NEAR(shared.score_ms, whole.score_ms / 8, 1e-9);
  EXPECT_NEAR(shared.read_ms, whole.read_ms / 8, 1e-9);
  EXPECT_NEAR(shared.link_ms, whole.link_ms / 8, 1e-9);
  EXPECT_EQ(shared.fixed_ms, whole.fixed_ms);
  EXPECT_EQ(whole.all_reduce_ms, 0);
  // By hand: 64 rows of 8 KiB, 7/4 of them passed on at 367 GB/s, and 10 us.
  EXPECT_NEAR(shared.all_reduce_ms,
              64 * (0.010 + 64 * 8192 * 1.75 / 367e9 * 1e3), 1e-6);
  EXPECT_NEAR(RequestBytes(node, kModel, row),
              RequestBytes(one, kModel, row) / 8, 1);
  // Nine GPUs: no fewer KV heads on the fullest one than on eight.
  node.num_gpus = 9;
  EXPECT_EQ(PredictStep(node, kModel, row, 64).read_ms, shared.read_ms);
  node.num_gpus = 3;
  EXPECT_NEAR(PredictStep(node, kModel, row, 64).read_ms, 3 * shared.read_ms,
              1e-9);
}

// Computed: what `winnow bench prefill` measured on an H200
// (bench/results/2026-11-22-32ce974-h200-prefill.json) to 12 %.
TEST(CostModelTest, AContextIsCopiedOrComputed) {
  const DeviceModel h200 = *DeviceModelOf("h200");
  RowWork row;
  struct Line {
    double context, first_token_ms;
  };
  for (const Line& line : {Line{1 << 10, 22.0}, Line{32 << 10, 1218.8},
                           Line{128 << 10, 10379.8}}) {
    row.context_tokens = line.context;
    const RestoreTimes times = PredictRestore(h200, kModel, row);
    EXPECT_NEAR(times.computed_ms, line.first_token_ms,
                0.12 * line.first_token_ms);
    const double bytes = line.context * 32 * 4 * 128 * 8;
    EXPECT_NEAR(times.from_disk_ms, bytes / 2.9e9 * 1e3, 1e-6);
    EXPECT_NEAR(times.from_host_ms, bytes / 51.4e9 * 1e3, 1e-6);
    const RestoreTimes of_node =
        PredictRestore(*DeviceModelOf("h200x8"), kModel, row);
    EXPECT_NEAR(8 * of_node.computed_ms, times.computed_ms, 1e-6);
    EXPECT_NEAR(8 * of_node.from_host_ms, times.from_host_ms, 1e-6);
    EXPECT_EQ(of_node.from_disk_ms, times.from_disk_ms);
  }
}

TEST(CostModelTest, AnUnknownDeviceIsNamed) {
  EXPECT_EQ(DeviceModelOf("h100").error().message,
            "--device-model must be one of h200, a100-40gb, rtx-4090, "
            "h200x8, is \"h100\"");
}

}  // namespace
}  // namespace winnow
