// Short prompts behind long ones: whole lives by plans alone, beside the same
// lives where prompts are read one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "engine/schedule/snapshot_case.h"

namespace winnow {
namespace {

constexpr StepCost kFairnessCost = {.step_ms = 1,
                                    .row_ms = 0.05,
                                    .read_ms = 1e-5,
                                    .single_row_ms = 0.05,
                                    .single_read_ms = 1e-5,
                                    .most = {.rows = 2048, .reads = 1e9}};
constexpr SchedulerLimits kFairnessLimits = {.max_num_seqs = 1000,
                                             .max_num_batched_tokens = 512,
                                             .num_layers = 6,
                                             .num_pages = 1 << 20};
// That nothing fits, so that a page a step goes on.
constexpr double kTightMs = 1e-6;

std::string PlanOf(const std::vector<SequenceSnapshot>& sequences,
                   double max_step_ms) {
  ScheduleInput input = {
      .limits = kFairnessLimits, .sequences = sequences, .cost = kFairnessCost};
  input.limits.max_step_ms = max_step_ms;
  return ToString(PlanStep(input).plan);
}

TEST(PromptFairnessTest, ShorterOnesGetHalfOfWhatTheFirstMayHave) {
  const std::vector<SequenceSnapshot> sequences = {
      Running(1, 5001, 5000), Running(2, 4000, 0), Running(3, 300, 0),
      Running(4, 40, 0)};
  // Of 511 rows; of 196 that fit, where less than half would reach a page's
  // end; of a page.
  EXPECT_EQ(PlanOf(sequences, 0),
            "1:[5000,5001)x[0,6)* 4:[0,40)x[0,6)* 3:[0,192)x[0,6) "
            "2:[0,256)x[0,6)");
  EXPECT_EQ(PlanOf(sequences, 11),
            "1:[5000,5001)x[0,6)* 4:[0,40)x[0,6)* 3:[0,32)x[0,6) "
            "2:[0,124)x[0,6)");
  EXPECT_EQ(PlanOf(sequences, kTightMs),
            "1:[5000,5001)x[0,6)* 4:[0,16)x[0,6) 2:[0,16)x[0,6)");
}

TEST(PromptFairnessTest, WhatTheyLeaveIsTheFirstOnes) {
  EXPECT_EQ(PlanOf({Running(2, 4000, 0), Running(4, 40, 0)}, 0),
            "4:[0,40)x[0,6)* 2:[0,448)x[0,6)");
  EXPECT_EQ(
      PlanOf({Running(1, 50, 49), Running(2, 4000, 32), Running(4, 40, 37)},
             kTightMs),
      "1:[49,50)x[0,6)* 4:[37,40)x[0,6)* 2:[32,61)x[0,6)");
  // It had not a page to its page's end.
  EXPECT_EQ(
      PlanOf({Running(1, 50, 49), Running(2, 4000, 59), Running(4, 40, 10)},
             kTightMs),
      "1:[49,50)x[0,6)* 4:[10,26)x[0,6) 2:[59,75)x[0,6)");
}

TEST(PromptFairnessTest, WhoIsNoShorterWaitsItsTurn) {
  EXPECT_EQ(
      PlanOf({Running(2, 1000, 0), Running(3, 1000, 0), Running(4, 2000, 0)},
             0),
      "2:[0,512)x[0,6)");
  // By what is left of them.
  EXPECT_EQ(PlanOf({Running(2, 1000, 900), Running(3, 800, 0)}, 0),
            "2:[900,1000)x[0,6)* 3:[0,384)x[0,6)");
}

// A layer's rows are a part of what is left of it.
TEST(PromptFairnessTest, WhoIsReadByLayersIsAsLongAsAllOfThem) {
  SequenceSnapshot layerwise = Running(2, 1000, 0);
  layerwise.layerwise = true;
  EXPECT_EQ(PlanOf({layerwise, Running(3, 500, 0)}, 0),
            "2:[0,256)x[0,1) 3:[0,256)x[0,6)");
  layerwise.next_layer = 5;
  EXPECT_EQ(PlanOf({layerwise, Running(3, 500, 0)}, 0), "2:[0,512)x[5,6)");
}

struct Prompt {
  double arrived_ms = 0;
  int num_tokens = 0;
};

// Carries plans out beside some who generate; steps take what is foretold.
class ForetoldMachine {
 public:
  // REQUIRES: prompts are in order of arrival.
  ForetoldMachine(std::vector<Prompt> prompts, const SchedulerLimits& limits)
      : prompts_(std::move(prompts)), limits_(limits) {}

  bool in_a_row = false;     // each waits until those before it are read
  bool steps_alike = false;  // each takes 1 ms, whatever is in it

  // When each was read.
  std::vector<double> Read() const {
    ScheduleInput input = {
        .limits = limits_, .sequences = {}, .cost = kFairnessCost};
    for (int i = 1; i <= kNumGenerating; ++i) {
      input.sequences.push_back(Running(static_cast<uint64_t>(i), 201, 200));
    }
    std::vector<double> ended(prompts_.size(), -1);
    double now = 0;
    size_t num_come = 0, num_ended = 0;
    while (num_ended < prompts_.size()) {
      for (; num_come < prompts_.size() && prompts_[num_come].arrived_ms <= now;
           ++num_come) {
        input.sequences.push_back(
            Running(kFirstPrompt + num_come, prompts_[num_come].num_tokens, 0));
      }
      HideAllButOne(input);
      const StepPlan plan = PlanStep(input).plan;
      now += steps_alike || plan.empty()
                 ? 1
                 : kFairnessCost.MsOf(WorkOf(plan, limits_.num_layers));
      for (const StepItem& item : plan.items) {
        auto& sequence = *std::ranges::find(input.sequences, item.sequence,
                                            &SequenceSnapshot::id);
        sequence.num_computed += item.num_tokens;
        if (!item.samples) continue;
        if (item.sequence.value() < kFirstPrompt) {
          sequence.num_tokens = sequence.num_computed + 1;
          continue;
        }
        ended[item.sequence.value() - kFirstPrompt] = now;
        ++num_ended;
      }
      std::erase_if(input.sequences, [](const SequenceSnapshot& sequence) {
        return sequence.num_computed == sequence.num_tokens;
      });
    }
    return ended;
  }

 private:
  static constexpr int kNumGenerating = 4;
  static constexpr uint64_t kFirstPrompt = 1000;

  void HideAllButOne(ScheduleInput& input) const {
    bool is_first = true;
    for (SequenceSnapshot& sequence : input.sequences) {
      if (!in_a_row || sequence.id.value() < kFirstPrompt) continue;
      sequence.is_restoring = !is_first;
      is_first = false;
    }
  }

  const std::vector<Prompt> prompts_;
  const SchedulerLimits limits_;
};

// One of 16K, and short ones that come all the time that it is read. Where
// steps are tight, where some pages fit, and where nothing bounds them.
TEST(PromptFairnessTest, ShortOnesDoNotWaitForALongOne) {
  for (const double max_step_ms : {kTightMs, 5.0, 11.0, 0.0}) {
    SchedulerLimits limits = kFairnessLimits;
    limits.max_step_ms = max_step_ms;
    const double alone =
        ForetoldMachine({{.num_tokens = 16 << 10}}, limits).Read().front();
    std::mt19937 random(7);
    std::vector<Prompt> prompts = {{.num_tokens = 16 << 10}};
    constexpr int kNumShort = 40;
    for (int i = 0; i < kNumShort; ++i) {
      prompts.push_back({.arrived_ms = alone * i / kNumShort,
                         .num_tokens = 2 + static_cast<int>(random() % 60)});
    }
    const auto waits = [&](bool in_a_row) {
      ForetoldMachine machine(prompts, limits);
      machine.in_a_row = in_a_row;
      std::vector<double> waited = machine.Read();
      for (size_t i = 0; i < waited.size(); ++i) {
        waited[i] -= prompts[i].arrived_ms;
      }
      return waited;
    };
    const auto mean_of_short = [](const std::vector<double>& waited) {
      return std::accumulate(waited.begin() + 1, waited.end(), 0.0) / kNumShort;
    };
    const auto fair = waits(false), in_a_row = waits(true);
    EXPECT_LT(mean_of_short(fair), mean_of_short(in_a_row) / 8) << max_step_ms;
    EXPECT_LT(*std::max_element(fair.begin() + 1, fair.end()),
              *std::max_element(in_a_row.begin() + 1, in_a_row.end()) / 4)
        << max_step_ms;
    EXPECT_LT(fair[0], 1.3 * in_a_row[0]) << max_step_ms;
  }
}

// More of them come than can be read.
TEST(PromptFairnessTest, ALongOneTakesNoMoreThanTwiceAsLong) {
  for (const double max_step_ms : {kTightMs, 11.0, 0.0}) {
    SchedulerLimits limits = kFairnessLimits;
    limits.max_step_ms = max_step_ms;
    std::vector<Prompt> prompts = {{.num_tokens = 8 << 10}};
    const double alone = ForetoldMachine(prompts, limits).Read().front();
    for (int i = 0; i < 400; ++i) {
      prompts.push_back({.arrived_ms = 3 * alone * i / 400, .num_tokens = 200});
    }
    EXPECT_LT(ForetoldMachine(prompts, limits).Read().front(), 2.1 * alone)
        << max_step_ms;
  }
}

// The bound that PlanStep says, of random lengths and arrivals, in steps.
TEST(PromptFairnessTest, NobodyIsReadLaterThanInTwiceTheSteps) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) {
      return static_cast<int>(random() % static_cast<unsigned>(n));
    };
    SchedulerLimits limits = kFairnessLimits;
    limits.max_num_batched_tokens = 5 + below(below(2) == 0 ? 60 : 400);
    if (below(2) == 0) limits.max_step_ms = kTightMs;
    std::vector<Prompt> prompts;
    double arrived_ms = 0;
    for (int i = 2 + below(20); i > 0; --i) {
      prompts.push_back({.arrived_ms = arrived_ms,
                         .num_tokens = 2 + below(below(3) == 0 ? 3000 : 200)});
      if (below(3) > 0) arrived_ms += below(60);
    }
    ForetoldMachine machine(prompts, limits);
    machine.steps_alike = true;
    const std::vector<double> ended = machine.Read();
    machine.in_a_row = true;
    const std::vector<double> in_a_row = machine.Read();
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_LE(ended[i], 2 * in_a_row[i] + static_cast<double>(i + 1))
          << "seed " << seed << " prompt " << i;
    }
  }
}

// However few rows a step has beside those who generate.
TEST(PromptFairnessTest, NoLimitsLeaveAPromptWithoutARow) {
  for (int num_rows = 1; num_rows <= 80; ++num_rows) {
    SchedulerLimits limits = kFairnessLimits;
    limits.max_num_batched_tokens = num_rows;
    ScheduleInput input = {.limits = limits, .sequences = {}};
    for (uint64_t id = 1; id <= 100; ++id) {
      input.sequences.push_back(
          {.id = SequenceId(id), .num_tokens = 50, .life_pages = 2});
    }
    // Who is admitted generates, but for the last.
    const std::vector<SequenceId> admitted = PlanStep(input).admitted;
    ASSERT_EQ(std::ssize(admitted), std::min(num_rows, 100));
    input.sequences.resize(admitted.size());
    for (SequenceSnapshot& sequence : input.sequences) {
      sequence.admitted = true;
      sequence.num_computed = 49;
    }
    input.sequences.back().num_computed = 0;
    const StepPlan plan = PlanStep(input).plan;
    EXPECT_EQ(plan.items.size(), admitted.size());
    EXPECT_NE(plan.Find(admitted.back()), nullptr) << num_rows;
  }
}

}  // namespace
}  // namespace winnow
