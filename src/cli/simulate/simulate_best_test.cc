#include "cli/simulate/simulate_best.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace winnow {
namespace {

RowWork Work(double context, double slots, double miss_share) {
  RowWork work;
  work.context_tokens = context;
  work.read_tokens = work.wanted_tokens = 2048;
  work.missed_tokens = miss_share * 2048;
  work.slot_tokens = slots;
  work.summary_bytes = 8;
  return work;
}

// Cells of their own names, by slots and misses.
class SimulateBestTest : public testing::Test {
 protected:
  SimulateBestTest() {
    SimulateFlags flags;
    flags.batches = "1,16";
    plan_ = *ParseSimulatePlan(flags);
    cells_.reserve(8);
  }
  void Add(const std::string& name, double context, double slots,
           double miss_share, SlotRule rule = SlotRule::kAge) {
    cells_.push_back({.cache_budget = name,
                      .slot_tokens = 32,
                      .rule = rule,
                      .by_length = {}});
    placed_.context_tokens = context;
    placed_.cells.push_back(
        {.cell = &cells_.back(), .work = Work(context, slots, miss_share)});
  }
  std::vector<BestBudget> Best() { return BestBudgets(plan_, {placed_}); }

  SimulatePlan plan_;
  std::vector<SimulateCell> cells_;
  PlacedCells placed_;
};

TEST_F(SimulateBestTest, WholePagesAreBestWhereTheyFit) {
  Add("2x", 32768, 4096, 0.1);
  const std::vector<BestBudget> best = Best();
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].cache_budget, "whole");
  EXPECT_EQ(best[0].batch, 1);
  EXPECT_TRUE(best[0].lacks.empty());
  EXPECT_TRUE(best[0].policy.empty());
  EXPECT_EQ(best[1].batch, 16);
  EXPECT_FALSE(best[1].most_tokens);
  EXPECT_TRUE(best[2].most_tokens);
}

// A larger cache misses less, but 16 of it do not fit.
TEST_F(SimulateBestTest, OfWhatFitsTheFastest) {
  plan_.device.host_gib = 4096;
  Add("2x", 131072, 4096, 0.30);
  Add("5x", 131072, 10240, 0.05);
  Add("20x", 131072, 60000, 0.01);
  Add("best", 131072, 4096, 0.0, SlotRule::kBelady);
  const std::vector<BestBudget> best = Best();
  EXPECT_EQ(best[1].cache_budget, "5x");
  EXPECT_EQ(best[1].policy, "age");
  EXPECT_EQ(best[1].slot_tokens, 32);
  EXPECT_EQ(best[1].cost.tpot_ms,
            PredictStep(plan_.device, plan_.model, placed_.cells[1].work, 16)
                .tpot_ms);
}

TEST_F(SimulateBestTest, WhatLacksLeastIsNamedWhereNothingFits) {
  plan_.device = *DeviceModelOf("rtx-4090");
  Add("2x", 1 << 20, 4096, 0.3);
  Add("5x", 1 << 20, 10240, 0.1);
  const std::vector<BestBudget> best = Best();
  const BestBudget& at_16 = best[1];
  EXPECT_EQ(at_16.cache_budget, "2x");
  ASSERT_EQ(at_16.lacks.size(), 2u);
  EXPECT_EQ(at_16.lacks[0].flag, "--memory-gib");
  EXPECT_EQ(at_16.lacks[0].limit_gib, 24);
  EXPECT_EQ(at_16.lacks[1].flag, "--host-gib");
  // What is said to suffice does.
  plan_.device.memory_gib = at_16.lacks[0].needed_gib * (1 + 1e-9);
  plan_.device.host_gib = at_16.lacks[1].needed_gib * (1 + 1e-9);
  EXPECT_TRUE(Best()[1].lacks.empty());
  plan_.device.memory_gib = 8;
  EXPECT_EQ(Best()[2].batch, 0);
  EXPECT_FALSE(Best()[2].lacks.empty());
}

// Against all candidates one by one, on random cells and cards.
TEST_F(SimulateBestTest, NothingThatFitsIsFaster) {
  std::mt19937_64 random(3);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    cells_.clear();
    placed_ = {};
    const double context = between(10'000, 1 << 20);
    for (int i = 0; i < 5; ++i) {
      Add(std::to_string(i), context, between(2048, 20'000), between(0, 0.5));
    }
    plan_.device = DeviceModels()[round % DeviceModels().size()];
    plan_.device.host_gib *= between(0.5, 50);
    std::vector<RowWork> works = {WholeWork(placed_.cells[0].work)};
    for (const PlacedCell& at : placed_.cells) works.push_back(at.work);
    for (const BestBudget& best : Best()) {
      const bool fits = best.lacks.empty();
      for (const RowWork& work : works) {
        const int64_t most = std::min(
            kMostRequests, RequestsThatFit(plan_.device, plan_.model, work));
        if (best.most_tokens) {
          EXPECT_TRUE(fits || most == 0);
          if (most == 0) continue;
          EXPECT_GE(
              best.cost.tokens_s,
              PredictStep(plan_.device, plan_.model, work, most).tokens_s);
        } else if (most >= best.batch) {
          EXPECT_TRUE(fits);
          EXPECT_LE(
              best.cost.tpot_ms,
              PredictStep(plan_.device, plan_.model, work, best.batch).tpot_ms);
        }
      }
    }
  }
}

}  // namespace
}  // namespace winnow
