#include "engine/schedule/scheduler.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "engine/schedule/snapshot_case.h"

namespace winnow {
namespace {

constexpr SchedulerLimits kSmallLimits = {.max_num_seqs = 4,
                                          .max_num_batched_tokens = 100,
                                          .num_layers = 6,
                                          .num_pages = 10};

SequenceSnapshot Waiting(uint64_t id, int num_tokens, int64_t life_pages) {
  return {
      .id = SequenceId(id), .num_tokens = num_tokens, .life_pages = life_pages};
}

TEST(SchedulerTest, OneTokenFirstThenPromptsInChunksThatEndAtAPage) {
  const Schedule schedule =
      PlanStep({kSmallLimits,
                {Running(1, 300, 0), Running(2, 41, 40), Waiting(3, 400, 1)}});
  EXPECT_EQ(ToString(schedule.plan), "2:[40,41)x[0,6)* 1:[0,96)x[0,6)");
  EXPECT_EQ(schedule.admitted, std::vector{SequenceId(3)});
}

TEST(SchedulerTest, AChunkThatEndsItsPromptSamples) {
  const Schedule schedule = PlanStep({kSmallLimits, {Running(1, 130, 96)}});
  EXPECT_EQ(ToString(schedule.plan), "1:[96,130)x[0,6)*");
}

// As behind a prefix that ends within a page.
TEST(SchedulerTest, AChunkThatBeginsInsideAPageEndsAtOne) {
  const Schedule schedule = PlanStep({kSmallLimits, {Running(1, 300, 40)}});
  EXPECT_EQ(ToString(schedule.plan), "1:[40,128)x[0,6)");
}

// All of it through a layer before any of it goes through the next.
TEST(SchedulerTest, WhoIsLayerwiseGoesThroughOneLayerAtATime) {
  SequenceSnapshot sequence = Running(1, 250, 0);
  sequence.layerwise = true;
  const auto plan = [&](int layer, int layer_tokens) {
    sequence.next_layer = layer;
    sequence.layer_tokens = layer_tokens;
    return ToString(
        PlanStep({kSmallLimits, {sequence, Running(2, 41, 40)}}).plan);
  };
  EXPECT_EQ(plan(0, 0), "1:[0,96)x[0,1) 2:[40,41)x[0,6)*");
  EXPECT_EQ(plan(0, 192), "1:[192,250)x[0,1) 2:[40,41)x[0,6)*");
  EXPECT_EQ(plan(4, 96), "2:[40,41)x[0,6)* 1:[96,192)x[4,5)");
  EXPECT_EQ(plan(5, 192), "2:[40,41)x[0,6)* 1:[192,250)x[5,6)*");
  // It owns no pages yet that would grow.
  sequence.next_layer = sequence.layer_tokens = 0;
  EXPECT_TRUE(PlanStep({kSmallLimits, {sequence}}).plan.Growths().empty());
  // Once it has been read it is as any other.
  sequence.num_computed = 249;
  EXPECT_EQ(plan(0, 0), "1:[249,250)x[0,6)* 2:[40,41)x[0,6)*");
}

// What lies in layer blocks stands apart from what lies in pages.
TEST(SchedulerTest, LayerwiseItemsStandTogether) {
  SchedulerLimits limits = kSmallLimits;
  limits.layers_per_step = 1;
  ScheduleInput input = {limits, {}};
  for (uint64_t id = 1; id <= 4; ++id) {
    input.sequences.push_back(Running(id, 20, 0));
    input.sequences.back().layerwise = id % 2 == 1;
  }
  EXPECT_EQ(ToString(PlanStep(input).plan),
            "2:[0,20)x[0,1) 4:[0,20)x[0,1) 1:[0,20)x[0,1) 3:[0,20)x[0,1)");
}

TEST(SchedulerTest, AdmitsInOrderWhilePromisesFitAndNobodyOvertakes) {
  const Schedule schedule = PlanStep(
      {kSmallLimits, {Waiting(1, 8, 6), Waiting(2, 8, 6), Waiting(3, 8, 1)}});
  EXPECT_EQ(schedule.admitted, std::vector{SequenceId(1)});
}

TEST(SchedulerTest, SaysWhatTheFirstWhoWaitsLacks) {
  const auto lacking = [](const std::vector<SequenceSnapshot>& sequences) {
    return PlanStep({kSmallLimits, sequences}).num_lacking_pages;
  };
  EXPECT_EQ(lacking({Waiting(1, 8, 6), Waiting(2, 8, 4)}), 0);
  EXPECT_EQ(lacking({Waiting(1, 8, 6), Waiting(2, 8, 7), Waiting(3, 8, 9)}), 3);
  // No page would help who is longer than the pool, or one too many.
  EXPECT_EQ(lacking({Waiting(1, 8, 6), Waiting(2, 8, 11)}), 0);
  EXPECT_EQ(lacking({Running(1, 8, 0), Running(2, 8, 0), Running(3, 8, 0),
                     Running(4, 8, 0), Waiting(5, 8, 10)}),
            0);
}

TEST(SchedulerTest, AdmitsNoMoreThanMaxNumSeqs) {
  ScheduleInput input = {kSmallLimits, {}};
  for (uint64_t id = 1; id <= 6; ++id) {
    input.sequences.push_back(Waiting(id, 8, 1));
  }
  EXPECT_EQ(PlanStep(input).admitted.size(), 4u);
}

TEST(SchedulerTest, LowerPrioritiesGoFirstAndEqualsAsTheyCame) {
  SchedulerLimits limits = kSmallLimits;
  limits.max_num_seqs = 3;
  ScheduleInput input = {limits, {}};
  for (const int priority : {0, 5, -1, 0, 5, -1}) {
    const uint64_t id = input.sequences.size() + 1;
    input.sequences.push_back(Waiting(id, 8, 1));
    input.sequences.back().priority = priority;
  }
  const Schedule schedule = PlanStep(input);
  EXPECT_EQ(schedule.admitted,
            (std::vector{SequenceId(3), SequenceId(6), SequenceId(1)}));
  // 5 came before 6 and would have run after it anyway; 4 has nobody's turn.
  EXPECT_EQ(schedule.overtaken,
            (std::vector{SequenceId(5), SequenceId(4), SequenceId(2)}));
}

// Whose turn it is waits for room, and nobody takes it.
TEST(SchedulerTest, APriorityIsNotOvertakenByWhatIsSmall) {
  ScheduleInput input = {kSmallLimits, {Waiting(1, 8, 1), Waiting(2, 8, 9)}};
  input.sequences[1].priority = -1;
  SequenceSnapshot running = Running(3, 8, 0);
  running.life_pages = 5;
  input.sequences.push_back(running);
  EXPECT_TRUE(PlanStep(input).admitted.empty());
}

// A step for each that comes with a better priority, and a run of one step:
// whatever comes, who waits is overtaken no more than kMaxOvertaken times.
TEST(SchedulerTest, NobodyStarvesBehindBetterPriorities) {
  SchedulerLimits limits = kSmallLimits;
  limits.max_num_seqs = 1;
  ScheduleInput input = {limits, {Waiting(1, 8, 1)}};
  input.sequences[0].priority = 9;
  for (uint64_t id = 2; id < 1000; ++id) {
    input.sequences.push_back(Waiting(id, 8, 1));
    const Schedule schedule = PlanStep(input);
    ASSERT_EQ(schedule.admitted.size(), 1u);
    if (schedule.admitted[0] == SequenceId(1)) {
      EXPECT_EQ(id, 2u + kMaxOvertaken);
      return;
    }
    ASSERT_EQ(schedule.overtaken, std::vector{SequenceId(1)});
    ++input.sequences[0].num_overtaken;
    input.sequences.pop_back();  // It ran, and has ended.
  }
  FAIL() << "it never ran";
}

TEST(SchedulerTest, RunsLayerRangesAndFinishesWhatIsUnderWayFirst) {
  SchedulerLimits limits = kSmallLimits;
  limits.layers_per_step = 4;
  SequenceSnapshot half_way = Running(2, 64, 0);
  half_way.chunk_tokens = 64;
  half_way.next_layer = 4;
  const Schedule schedule = PlanStep({limits, {Running(1, 64, 0), half_way}});
  EXPECT_EQ(ToString(schedule.plan), "1:[0,32)x[0,4) 2:[0,64)x[4,6)*");
}

TEST(SchedulerTest, WhatAChoiceOutlivesIsNotSplit) {
  SchedulerLimits limits = kSmallLimits;
  limits.layers_per_step = 4;
  SequenceSnapshot whole = Running(2, 30, 0);
  whole.needs_all_layers = true;
  const Schedule schedule = PlanStep({limits, {Running(1, 64, 0), whole}});
  EXPECT_EQ(ToString(schedule.plan), "1:[0,64)x[0,4) 2:[0,30)x[0,6)*");
}

// Carries plans out until all prompts and 5 tokens each are computed: whatever
// the limits, every sequence gets there, within the limits.
TEST(SchedulerTest, EverySequenceFinishesUnderAnyLimits) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto up_to = [&](int n) { return static_cast<int>(random() % n) + 1; };
    ScheduleInput input;
    input.limits = {.max_num_seqs = up_to(4),
                    .max_num_batched_tokens = up_to(90),
                    .num_layers = up_to(5),
                    .layers_per_step = up_to(6) - 1,
                    .num_pages = 20};
    for (int id = up_to(6); id > 0; --id) {
      input.sequences.push_back(
          Waiting(static_cast<uint64_t>(id), up_to(400), up_to(20)));
    }
    std::vector<int> left(8, 5);
    int num_steps = 0;
    while (!input.sequences.empty()) {
      ASSERT_LT(++num_steps, 20000) << "seed " << seed;
      const Schedule schedule = PlanStep(input);
      ASSERT_FALSE(schedule.plan.empty()) << "seed " << seed;
      ASSERT_LE(NumRows(schedule.plan), input.limits.max_num_batched_tokens);
      int num_inside = 0;  // chunks that end neither at a page nor their prompt
      for (SequenceSnapshot& sequence : input.sequences) {
        for (const SequenceId id : schedule.admitted) {
          if (sequence.id == id) sequence.admitted = true;
        }
        for (const StepItem& item : schedule.plan.items) {
          if (sequence.id != item.sequence) continue;
          ASSERT_EQ(item.first_token, sequence.num_computed);
          ASSERT_EQ(item.first_layer, sequence.next_layer);
          const int end = item.first_token + item.num_tokens;
          num_inside += end % kPageTokens != 0 && end != sequence.num_tokens &&
                        sequence.chunk_tokens == 0;
          const bool done = item.end_layer == input.limits.num_layers;
          sequence.chunk_tokens = done ? 0 : item.num_tokens;
          sequence.next_layer = done ? 0 : item.end_layer;
          if (done) sequence.num_computed += item.num_tokens;
          if (item.samples && --left[sequence.id.value()] > 0) {
            ++sequence.num_tokens;
          }
        }
      }
      // The first prompt, and the shortest that it shares its rows with; where
      // it does not, there is no row left.
      ASSERT_LE(num_inside, 2) << "seed " << seed;
      if (num_inside > 0 && schedule.plan.items.size() == 1) {
        ASSERT_EQ(NumRows(schedule.plan), input.limits.max_num_batched_tokens)
            << "seed " << seed << " " << ToString(schedule.plan);
      }
      std::erase_if(input.sequences, [](const SequenceSnapshot& sequence) {
        return sequence.num_computed == sequence.num_tokens;
      });
    }
  }
}

// A time that passes only where a test says so.
TEST(DeadlinesTest, EndWhoIsLateWhetherItRunsOrWaits) {
  using Time = std::chrono::steady_clock::time_point;
  const auto at = [](int seconds) {
    return Time(std::chrono::seconds(seconds));
  };
  std::vector<SequenceSnapshot> sequences;
  for (const auto& [id, seconds, admitted] :
       {std::tuple(1, 30, true), {2, 10, false}, {3, 20, true}}) {
    sequences.push_back({.id = SequenceId(static_cast<uint64_t>(id)),
                         .num_tokens = 1,
                         .admitted = admitted,
                         .deadline = at(seconds)});
  }
  sequences.push_back({.id = SequenceId(4), .num_tokens = 1});
  const auto expired = [&](Time now) {
    std::vector<uint64_t> ids;
    for (const SequenceId id : ExpiredSequences(sequences, now)) {
      ids.push_back(id.value());
    }
    return ids;
  };
  using Expired = std::vector<uint64_t>;
  EXPECT_EQ(expired(at(0)), Expired());
  EXPECT_EQ(expired(at(10) - std::chrono::nanoseconds(1)), Expired());
  EXPECT_EQ(expired(at(10)), Expired({2}));
  EXPECT_EQ(expired(at(29)), Expired({2, 3}));
  EXPECT_EQ(expired(Time::max()), Expired({1, 2, 3}));
}

TEST(ScoredRowsTest, AreOfTheChunksThatEndWithTheLastLayer) {
  ScheduleInput input;
  input.limits = {.max_num_seqs = 1,
                  .max_num_batched_tokens = 64,
                  .num_layers = 2,
                  .layers_per_step = 1,
                  .num_pages = 8};
  input.sequences = {{.id = SequenceId(1),
                      .num_tokens = 100,
                      .admitted = true,
                      .life_pages = 4,
                      .first_scored = 10,
                      .end_scored = 99}};
  SequenceSnapshot& sequence = input.sequences[0];
  EXPECT_EQ(ToString(PlanStep(input).plan), "1:[0,64)x[0,1)");
  sequence.chunk_tokens = 64;
  sequence.next_layer = 1;
  EXPECT_EQ(ToString(PlanStep(input).plan), "1:[0,64)x[1,2)?[10,64)");
  sequence.num_computed = 64;
  sequence.chunk_tokens = 36;
  EXPECT_EQ(ToString(PlanStep(input).plan), "1:[64,100)x[1,2)*?[64,99)");
  sequence.first_scored = 99;
  EXPECT_EQ(ToString(PlanStep(input).plan), "1:[64,100)x[1,2)*");
}

}  // namespace
}  // namespace winnow
