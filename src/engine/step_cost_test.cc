#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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
  EXPECT_EQ(WorkOf(Item(0, 1, 0, 6), 6), (StepWork{1, 1}));
  EXPECT_EQ(WorkOf(Item(10, 3, 0, 6), 6), (StepWork{3, 11 + 12 + 13}));
  EXPECT_EQ(WorkOf(Item(10, 3, 2, 4), 6), (StepWork{1, 12}));
  EXPECT_EQ(WorkOf(StepPlan{{Item(0, 1, 0, 6), Item(10, 3, 0, 6)}}, 6),
            (StepWork{4, 37}));
}

// Of a machine that keeps to a line, with noise and stalls.
class Machine {
 public:
  Machine(StepCost truth, double noise, double stalls, unsigned seed)
      : truth_(truth), noise_(noise), stalls_(stalls), random_(seed) {}

  double Run(const StepWork& work) {
    std::normal_distribution<double> normal(0, noise_);
    std::bernoulli_distribution stall(stalls_);
    const double ms = truth_.MsOf(work) * std::exp(normal(random_));
    return stall(random_) ? 50 * ms : ms;
  }
  StepWork Draw() {
    std::uniform_real_distribution<double> power(0, 11);
    const double rows = std::floor(std::exp2(power(random_)));
    const double context = std::floor(std::exp2(power(random_)));
    return {rows, rows * context};
  }

 private:
  const StepCost truth_;
  const double noise_;
  const double stalls_;
  std::mt19937 random_;
};

TEST(StepCostFitTest, FindsTheLineOfAMachine) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> power(-1, 1);
    const StepCost truth = {.step_ms = std::pow(10, power(random)),
                            .row_ms = 0.05 * std::pow(10, power(random)),
                            .read_ms = 1e-4 * std::pow(10, power(random))};
    Machine machine(truth, /*noise=*/0, /*stalls=*/0, seed);
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
  const StepCost truth = {.step_ms = 2, .row_ms = 0.1, .read_ms = 1e-4};
  Machine machine(truth, /*noise=*/0.1, /*stalls=*/0.1, 1);
  StepCostFit fit;
  for (int i = 0; i < 2000; ++i) {
    const StepWork work = machine.Draw();
    fit.Add(work, machine.Run(work));
  }
  for (int i = 0; i < 100; ++i) {
    const StepWork work = machine.Draw();
    EXPECT_NEAR(std::log(fit.cost().MsOf(work) / truth.MsOf(work)), 0, 0.4);
  }
}

// What a prompt costs is still known when one comes.
TEST(StepCostFitTest, ManyStepsOfOneSizeForgetNoOther) {
  const StepCost truth = {.step_ms = 2, .row_ms = 0.1, .read_ms = 1e-4};
  Machine machine(truth, 0, 0, 1);
  StepCostFit fit;
  for (int i = 0; i < 100; ++i) {
    const StepWork work = machine.Draw();
    fit.Add(work, machine.Run(work));
  }
  const StepWork one = {1, 300};
  for (int i = 0; i < 10000; ++i) fit.Add(one, machine.Run(one));
  const StepWork prompt = {500, 500.0 * 250};
  EXPECT_NEAR(fit.cost().MsOf(prompt) / truth.MsOf(prompt), 1, 1e-6);
}

TEST(StepCostFitTest, FollowsAMachineThatGetsSlower) {
  StepCost truth = {.step_ms = 2, .row_ms = 0.1, .read_ms = 1e-4};
  StepCostFit fit;
  for (const double times : {1.0, 3.0}) {
    const StepCost now = {times * truth.step_ms, times * truth.row_ms,
                          times * truth.read_ms};
    Machine machine(now, 0, 0, 1);
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

TEST(StepCostFitTest, NoTermIsNegative) {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> ms(0.1, 10);
  Machine machine({}, 0, 0, 2);
  StepCostFit fit;
  for (int i = 0; i < 1000; ++i) {
    fit.Add(machine.Draw(), ms(random));
    const StepCost& cost = fit.cost();
    EXPECT_GE(cost.step_ms, 0);
    EXPECT_GE(cost.row_ms, 0);
    EXPECT_GE(cost.read_ms, 0);
    EXPECT_GT(cost.MsOf({1, 1}) + cost.MsOf({1000, 1e6}), 0);
  }
}

}  // namespace
}  // namespace winnow
