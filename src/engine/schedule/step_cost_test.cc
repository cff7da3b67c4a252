#include "engine/schedule/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace winnow {
namespace {

StepItem Item(int first_token, int num_tokens, int first_layer, int end_layer) {
  return {.sequence = SequenceId(1),
          .first_token = first_token,
          .num_tokens = num_tokens,
          .first_layer = first_layer,
          .end_layer = end_layer};
}

TEST(StepWorkTest, RowsReadWhatLiesBeforeThem) {
  EXPECT_EQ(WorkOf(Item(10, 3, 0, 6), 6), (StepWork{3, 11 + 12 + 13}));
  EXPECT_EQ(WorkOf(Item(10, 3, 2, 4), 6), (StepWork{1, 12}));
}

TEST(StepWorkTest, OneTokenIsApartFromChunks) {
  EXPECT_EQ(WorkOf(Item(9, 1, 0, 6), 6),
            (StepWork{.single_rows = 1, .single_reads = 10}));
  EXPECT_EQ(
      WorkOf(StepPlan{{Item(0, 1, 0, 6), Item(10, 3, 0, 6), Item(7, 1, 0, 3)}},
             6),
      (StepWork{
          .rows = 3, .reads = 36, .single_rows = 1.5, .single_reads = 1 + 4}));
}

// Of a machine that keeps to a line, with noise and stalls.
class LinearMachine {
 public:
  LinearMachine(StepCost truth, double noise, double stalls, unsigned seed)
      : truth_(truth), noise_(noise), stalls_(stalls), random_(seed) {}

  double Run(const StepWork& work) {
    std::normal_distribution<double> normal(0, noise_);
    std::bernoulli_distribution stall(stalls_);
    const double ms = truth_.MsOf(work) * std::exp(normal(random_));
    return stall(random_) ? 50 * ms : ms;
  }
  StepWork Draw() {
    std::uniform_real_distribution<double> power(0, 11);
    const auto draw = [&] { return std::floor(std::exp2(power(random_))); };
    StepWork work;
    const bool has_chunk = random_() % 3 > 0;
    if (has_chunk) {
      work.rows = draw();
      work.reads = work.rows * draw();
    }
    if (!has_chunk || random_() % 2 == 0) {
      work.single_rows = draw();
      work.single_reads = work.single_rows * draw();
    }
    return work;
  }

 private:
  const StepCost truth_;
  const double noise_;
  const double stalls_;
  std::mt19937 random_;
};

constexpr StepCost kTruth = {.step_ms = 2,
                             .chunk_ms = 1,
                             .row_ms = 0.1,
                             .read_ms = 1e-4,
                             .single_row_ms = 0.05,
                             .single_read_ms = 1e-3};

TEST(StepCostFitTest, FindsTheLineOfAMachine) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> power(-1, 1);
    const StepCost truth = {
        .step_ms = std::pow(10, power(random)),
        .chunk_ms = std::pow(10, power(random)),
        .row_ms = 0.05 * std::pow(10, power(random)),
        .read_ms = 1e-4 * std::pow(10, power(random)),
        .single_row_ms = 0.05 * std::pow(10, power(random)),
        .single_read_ms = 1e-4 * std::pow(10, power(random))};
    LinearMachine machine(truth, /*noise=*/0, /*stalls=*/0, seed);
    StepCostFit fit;
    for (int i = 0; i < 100; ++i) {
      const StepWork work = machine.Draw();
      fit.Add(work, machine.Run(work));
    }
    for (int i = 0; i < 100; ++i) {
      const StepWork work = machine.Draw();
      EXPECT_NEAR(fit.cost().MsOf(work) / truth.MsOf(work), 1, 1e-6);
    }
  }
}

TEST(StepCostFitTest, AStallChangesNothing) {
  StepCostFit fit;
  for (int i = 0; i < 20; ++i) fit.Add({1, 300}, 5);
  for (const double ms : {500.0, 5.0, 800.0, 300.0}) {
    fit.Add({1, 300}, ms);
    EXPECT_NEAR(fit.cost().MsOf({1, 300}), 5, 1e-9);
  }
}

TEST(StepCostFitTest, NoiseIsEvenedOut) {
  LinearMachine machine(kTruth, /*noise=*/0.1, /*stalls=*/0.1, 1);
  StepCostFit fit;
  for (int i = 0; i < 2000; ++i) {
    const StepWork work = machine.Draw();
    fit.Add(work, machine.Run(work));
  }
  for (int i = 0; i < 100; ++i) {
    const StepWork work = machine.Draw();
    EXPECT_NEAR(std::log(fit.cost().MsOf(work) / kTruth.MsOf(work)), 0, 0.4);
  }
}

// What a prompt costs is still known when one comes.
TEST(StepCostFitTest, ManyStepsOfOneSizeForgetNoOther) {
  LinearMachine machine(kTruth, 0, 0, 1);
  StepCostFit fit;
  for (int i = 0; i < 100; ++i) {
    const StepWork work = machine.Draw();
    fit.Add(work, machine.Run(work));
  }
  const StepWork one = {.single_rows = 1, .single_reads = 300};
  for (int i = 0; i < 10000; ++i) fit.Add(one, machine.Run(one));
  const StepWork prompt = {500, 500.0 * 250};
  EXPECT_NEAR(fit.cost().MsOf(prompt) / kTruth.MsOf(prompt), 1, 1e-6);
}

TEST(StepCostFitTest, FollowsAMachineThatGetsSlower) {
  StepCostFit fit;
  for (const double times : {1.0, 3.0}) {
    StepCost now = kTruth;
    for (double* term : {&now.step_ms, &now.chunk_ms, &now.row_ms, &now.read_ms,
                         &now.single_row_ms, &now.single_read_ms}) {
      *term *= times;
    }
    LinearMachine machine(now, 0, 0, 1);
    for (int i = 0; i < 5000; ++i) {
      const StepWork work = machine.Draw();
      fit.Add(work, machine.Run(work));
    }
    const StepWork work = {100, 5000};
    EXPECT_NEAR(fit.cost().MsOf(work) / now.MsOf(work), 1, 0.02);
  }
}

// Nothing says that a step of a hundred rows takes no longer, so it may.
TEST(StepCostFitTest, WhatIsNotKnownIsNotCheap) {
  StepCostFit fit;
  EXPECT_FALSE(fit.cost().Covers({1, 1}));
  for (int i = 0; i < 20; ++i) fit.Add({1, 300}, 5);
  EXPECT_NEAR(fit.cost().MsOf({1, 300}), 5, 1e-9);
  EXPECT_NEAR(fit.cost().MsOf({100, 300}), 500, 1e-6);
  EXPECT_TRUE(fit.cost().Covers({2, 1200}));
  EXPECT_FALSE(fit.cost().Covers({3, 600}));
  EXPECT_FALSE(fit.cost().Covers({2, 1300}));
}

// A prompt went by beside four that generate; then the four alone for long,
// behind contexts that grow. What their reads take is not what a prompt's do,
// and noise does not make one of the other.
TEST(StepCostFitTest, RowsAndReadsOfChunksDoNotChangePlaces) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    LinearMachine machine(kTruth, /*noise=*/0.1, /*stalls=*/0, seed);
    StepCostFit fit;
    const auto run = [&](const StepWork& work) {
      fit.Add(work, machine.Run(work));
    };
    for (double first = 0; first < 16384; first += 128) {
      run({.rows = 128,
           .reads = 128 * (first + 64.5),
           .single_rows = 4,
           .single_reads = 4 * 300});
    }
    for (double context = 300; context < 4000; ++context) {
      run({.single_rows = 4, .single_reads = 4 * context});
    }
    const StepWork begins = {.rows = 256, .reads = 256 * 128.5};
    const StepWork goes_on = {.rows = 64, .reads = 64 * 16000.0};
    for (const StepWork& work : {begins, goes_on}) {
      EXPECT_NEAR(std::log(fit.cost().MsOf(work) / kTruth.MsOf(work)), 0, 0.5)
          << seed << " rows " << work.rows;
    }
  }
}

// Whatever steps take, by a machine that is against it: as long as that is
// less than the margin may reach, few take longer than it says.
TEST(StepCostFitTest, TheMarginCoversAllButAShare) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    StepCostFit fit;
    const StepWork work = {64, 64 * 100.0, 4, 4 * 300.0};
    fit.Add(work, 10);
    std::vector<bool> over;
    double times = 1;
    for (int i = 0; i < 3000; ++i) {
      // As it likes, now and then just above the margin.
      if (random() % 100 == 0) times = std::exp2(random() % 4) / 2;
      const double foretold = fit.cost().MsOf(work);
      const double margin = fit.cost().margin;
      const bool is_sly = random() % 3 == 0 && seed % 2 == 0;
      const double ms =
          is_sly ? std::min(1.01 * margin * foretold, 80.0) : 10 * times;
      ASSERT_LE(ms, StepCostFit::kMaxRatio * foretold);
      over.push_back(ms > margin * foretold);
      fit.Add(work, ms);
    }
    const double slack =
        std::log(StepCostFit::kMaxRatio) / StepCostFit::kMarginRate + 1;
    for (const size_t first : {0, 500, 1000, 2000}) {
      const auto num_over = std::count(
          over.begin() + static_cast<std::ptrdiff_t>(first), over.end(), true);
      const auto num_steps = static_cast<double>(over.size() - first);
      EXPECT_LE(static_cast<double>(num_over),
                StepCostFit::kOverShare * num_steps + slack)
          << seed << " from " << first;
    }
  }
}

// A stall widens it; a machine that keeps to its line narrows it again.
TEST(StepCostFitTest, TheMarginIsForgotten) {
  StepCostFit fit;
  const StepWork work = {64, 64 * 100.0, 4, 4 * 300.0};
  for (int i = 0; i < 20; ++i) fit.Add(work, 10);
  EXPECT_EQ(fit.cost().margin, 1);
  for (int i = 0; i < 3; ++i) fit.Add(work, 100);
  EXPECT_GT(fit.cost().margin, 1.5);
  for (int i = 0; i < 400; ++i) fit.Add(work, 10);
  EXPECT_EQ(fit.cost().margin, 1);
  // Steps that nobody waits for, or without a prompt, say nothing of it.
  for (const StepWork& other :
       {StepWork{64, 6400}, StepWork{.single_rows = 4, .single_reads = 1200}}) {
    for (int i = 0; i < 20; ++i) fit.Add(other, 10);
    for (int i = 0; i < 3; ++i) fit.Add(other, 100);
    EXPECT_EQ(fit.cost().margin, 1);
  }
}

TEST(BoundedStepsTest, AreCountedByWhetherChunksAreBesideThem) {
  BoundedSteps steps;
  steps.Add({.rows = 32, .single_rows = 1}, /*is_over=*/true);
  steps.Add({.rows = 32, .single_rows = 1}, /*is_over=*/false);
  steps.Add({.single_rows = 1}, /*is_over=*/false);
  EXPECT_EQ(steps.with_chunks.num_steps, 2u);
  EXPECT_EQ(steps.with_chunks.num_over, 1u);
  EXPECT_EQ(steps.without_chunks.num_steps, 1u);
  EXPECT_EQ(steps.without_chunks.num_over, 0u);
}

TEST(StepCostFitTest, NoTermIsNegative) {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> ms(0.1, 10);
  LinearMachine machine({}, 0, 0, 2);
  StepCostFit fit;
  for (int i = 0; i < 1000; ++i) {
    fit.Add(machine.Draw(), ms(random));
    const StepCost& cost = fit.cost();
    EXPECT_GE(cost.step_ms, 0);
    EXPECT_GE(cost.row_ms, 0);
    EXPECT_GE(cost.read_ms, 0);
    EXPECT_GE(cost.chunk_ms, 0);
    EXPECT_GE(cost.single_row_ms, 0);
    EXPECT_GE(cost.single_read_ms, 0);
    EXPECT_GT(cost.MsOf({1, 1, 1, 1}) + cost.MsOf({1000, 1e6, 100, 1e5}), 0);
  }
}

}  // namespace
}  // namespace winnow
