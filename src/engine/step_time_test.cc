// Prompts beside requests that generate, under a bound of a step's time: random
// snapshots, and whole lives on a machine whose cost is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/scheduler.h"

namespace winnow {
namespace {

constexpr StepCost kCost = {.step_ms = 1,
                            .row_ms = 0.05,
                            .read_ms = 1e-5,
                            .most = {.rows = 2048, .reads = 1e9}};
constexpr SchedulerLimits kLimits = {.max_num_seqs = 64,
                                     .max_num_batched_tokens = 2048,
                                     .num_layers = 6,
                                     .num_pages = 1 << 20,
                                     .max_step_ms = 10};

SequenceSnapshot Running(uint64_t id, int num_tokens, int num_computed) {
  return {.id = SequenceId(id),
          .num_tokens = num_tokens,
          .num_computed = num_computed,
          .admitted = true,
          .life_pages = 1};
}

double MsOf(const StepPlan& plan, const StepCost& cost = kCost) {
  return cost.MsOf(WorkOf(plan, kLimits.num_layers));
}

TEST(StepTimeTest, APromptGetsWhatFitsBesideOneThatGenerates) {
  const StepPlan plan =
      PlanStep({.limits = kLimits,
                .sequences = {Running(1, 40, 39), Running(2, 4000, 0)},
                .cost = kCost})
          .plan;
  // 1 + 0.05 n + 1e-5 n (n + 1) / 2 is 10 at n = 176.8.
  EXPECT_EQ(ToString(plan), "1:[39,40)x[0,6)* 2:[0,160)x[0,6)");
}

TEST(StepTimeTest, AloneItGetsAllRows) {
  const StepPlan plan = PlanStep({.limits = kLimits,
                                  .sequences = {Running(2, 4000, 0)},
                                  .cost = kCost})
                            .plan;
  EXPECT_EQ(ToString(plan), "2:[0,2048)x[0,6)");
}

TEST(StepTimeTest, WhereNothingFitsAPageGoesOn) {
  ScheduleInput input = {.limits = kLimits,
                         .sequences = {Running(1, 40, 39), Running(2, 4000, 40),
                                       Running(3, 4000, 0)}};
  // Nothing has been measured; or a single row is too much.
  for (const StepCost& cost : {StepCost(), StepCost{.step_ms = 100}}) {
    input.cost = cost;
    EXPECT_EQ(ToString(PlanStep(input).plan),
              "1:[39,40)x[0,6)* 2:[40,64)x[0,6)");
  }
}

TEST(StepTimeTest, ChunksGrowByTwiceWhatWasMeasured) {
  StepCost cost = kCost;
  cost.most = {.rows = 33, .reads = 1e9};
  ScheduleInput input = {.limits = kLimits,
                         .sequences = {Running(1, 40, 39), Running(2, 4000, 0)},
                         .cost = cost};
  EXPECT_EQ(ToString(PlanStep(input).plan), "1:[39,40)x[0,6)* 2:[0,64)x[0,6)");
}

// A chunk of some layers takes as much less.
TEST(StepTimeTest, LayersCountByTheirShare) {
  ScheduleInput input = {.limits = kLimits,
                         .sequences = {Running(1, 40, 39), Running(2, 4000, 0)},
                         .cost = kCost};
  input.limits.layers_per_step = 3;
  const StepPlan plan = PlanStep(input).plan;
  EXPECT_EQ(ToString(plan), "1:[39,40)x[0,3) 2:[0,320)x[0,3)");
  EXPECT_LE(MsOf(plan), 10);
}

ScheduleInput RandomInput(std::mt19937& random) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  ScheduleInput input = {.limits = kLimits, .sequences = {}, .cost = kCost};
  input.limits.max_num_batched_tokens = 64 + below(2048);
  input.limits.max_step_ms = 0.5 + below(40);
  for (int i = 0; i < 1 + below(12); ++i) {
    const int num_tokens = 2 + below(20'000);
    const bool generates = below(2) == 0;
    input.sequences.push_back(
        Running(static_cast<uint64_t>(i), num_tokens,
                generates ? num_tokens - 1 : below(num_tokens - 1)));
  }
  return input;
}

TEST(StepTimeTest, NoPromptBreaksTheBoundNorWastesIt) {
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    const ScheduleInput input = RandomInput(random);
    const StepPlan plan = PlanStep(input).plan;
    ScheduleInput unbound = input;
    unbound.limits.max_step_ms = 0;
    const StepPlan most = PlanStep(unbound).plan;
    StepPlan generating;
    std::vector<StepItem> prompts;
    for (const StepItem& item : plan.items) {
      if (item.samples && item.num_tokens == 1) {
        generating.items.push_back(item);
      } else {
        prompts.push_back(item);
      }
    }
    if (generating.empty()) {
      EXPECT_EQ(plan, most);
      continue;
    }
    // Whoever generates does so in every step.
    for (const StepItem& item : most.items) {
      const bool was_left_out = plan.Find(item.sequence) == nullptr;
      EXPECT_FALSE(item.num_tokens == 1 && item.samples && was_left_out);
    }
    EXPECT_EQ(prompts.empty(), most.items.size() == generating.items.size());
    if (MsOf(plan) > input.limits.max_step_ms && !prompts.empty()) {
      ASSERT_EQ(prompts.size(), 1u);
      EXPECT_LE(prompts[0].num_tokens, kPageTokens);
    }
    const int room = input.limits.max_num_batched_tokens - NumRows(plan);
    if (plan == most || prompts.empty() || room < kPageTokens) continue;
    // Another page of the last one would be too much.
    StepPlan longer = plan;
    for (StepItem& item : longer.items) {
      if (item.sequence != prompts.back().sequence) continue;
      const auto* of = &input.sequences[item.sequence.value()];
      if (item.first_token + item.num_tokens == of->num_tokens) break;
      item.num_tokens += kPageTokens;
      EXPECT_GT(MsOf(longer), input.limits.max_step_ms) << ToString(plan);
    }
  }
}

// A machine is measured while a prompt of 32K goes by requests that generate.
TEST(StepTimeTest, ALifeBesideAPromptIsUnderTheBound) {
  const StepCost truth = {.step_ms = 2, .row_ms = 0.08, .read_ms = 2e-6};
  StepCostFit fit;
  ScheduleInput input = {.limits = kLimits, .sequences = {}};
  input.limits.max_step_ms = 20;
  input.sequences = {Running(1, 101, 100), Running(2, 201, 200)};
  const auto step = [&] {
    input.cost = fit.cost();
    const StepPlan plan = PlanStep(input).plan;
    const double ms = MsOf(plan, truth);
    fit.Add(WorkOf(plan, kLimits.num_layers), ms);
    for (const StepItem& item : plan.items) {
      auto& sequence = *std::ranges::find(input.sequences, item.sequence,
                                          &SequenceSnapshot::id);
      sequence.num_computed += item.num_tokens;
      if (item.samples) ++sequence.num_tokens;
    }
    return ms;
  };
  for (int i = 0; i < 50; ++i) EXPECT_LT(step(), 20);
  input.sequences.push_back(Running(3, 32 << 10, 0));
  int num_steps = 0;
  double longest = 0;
  while (input.sequences[2].num_computed < 32 << 10) {
    longest = std::max(longest, step());
    ++num_steps;
  }
  EXPECT_LE(longest, 20 * 1.001);
  // At 2048 rows a step it was 16, the first of them of 170 ms; at a page,
  // 1024.
  EXPECT_LT(num_steps, 300);
}

}  // namespace
}  // namespace winnow
