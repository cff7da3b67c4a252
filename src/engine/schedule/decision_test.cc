#include "engine/schedule/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace winnow {
namespace {

ScheduleInput RandomInput(std::mt19937& random) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  ScheduleInput input;
  input.limits = {.max_num_seqs = 1 + below(8),
                  .max_num_batched_tokens = 1 + below(300),
                  .num_layers = 6,
                  .num_pages = 60,
                  .num_free_host_pages = below(8),
                  .num_table_pages = 1 + below(300)};
  input.admits = below(5) != 0;
  for (int i = 1; i <= below(20); ++i) {
    SequenceSnapshot& sequence = input.sequences.emplace_back();
    sequence.id = SequenceId(static_cast<uint64_t>(i));
    sequence.num_tokens = 2 + below(300);
    sequence.num_computed = below(sequence.num_tokens);
    sequence.admitted = below(3) == 0;
    sequence.priority = below(3);
    sequence.num_overtaken = below(2 * kMaxOvertaken);
    sequence.life_pages = 1 + below(30);
    sequence.host_pages = below(3);
    sequence.table_pages = below(60);
    sequence.expected_table_pages = below(60);
    sequence.layerwise = below(4) == 0;
    const SequenceSnapshot& first = input.sequences.front();
    if (i == 1 && below(3) == 0) {
      sequence.layerwise = false;
      sequence.fork_pages = 1 + below(5);
      if (below(2) == 0) sequence.num_computed = sequence.num_tokens;
    } else if (first.is_prefix() && below(2) == 0) {
      sequence.layerwise = false;
      sequence.prefix = first.id;
      sequence.life_pages = 1 + below(static_cast<int>(first.fork_pages));
      sequence.admitted = sequence.admitted && first.admitted;
    }
  }
  return input;
}

TEST(DecisionTest, WhatWasNotLookedAtChangesNothing) {
  std::mt19937 random(5);
  int num_left_out = 0;
  for (int i = 0; i < 5000; ++i) {
    const ScheduleInput input = RandomInput(random);
    const Schedule schedule = PlanStep(input);
    const Decision less = LookedAt(ScheduleDecision{input, schedule});
    const auto& made = std::get<ScheduleDecision>(less);
    EXPECT_EQ(PlanStep(made.input), schedule) << i;
    num_left_out += static_cast<int>(std::ssize(input.sequences) -
                                     std::ssize(made.input.sequences));
    const auto victim = PreemptionVictim(input.sequences);
    EXPECT_EQ(std::get<VictimDecision>(DecideAgain(LookedAt(VictimDecision{
                                           input.sequences, victim})))
                  .victim,
              victim);
  }
  EXPECT_GT(num_left_out, 5000);
}

TEST(DecisionTest, DoesNotGrowWithThoseWhoWait) {
  ScheduleInput input;
  input.limits = {.max_num_seqs = 2,
                  .max_num_batched_tokens = 64,
                  .num_layers = 6,
                  .num_pages = 60};
  for (uint64_t id = 1; id <= 1000; ++id) {
    input.sequences.push_back({.id = SequenceId(id),
                               .num_tokens = 9,
                               .admitted = id <= 2,
                               .life_pages = 1});
  }
  const auto num_kept = [&] {
    const Decision less = LookedAt(ScheduleDecision{input, PlanStep(input)});
    return std::get<ScheduleDecision>(less).input.sequences.size();
  };
  EXPECT_EQ(num_kept(), 3u);
  input.admits = false;
  EXPECT_EQ(num_kept(), 2u);
}

}  // namespace
}  // namespace winnow
