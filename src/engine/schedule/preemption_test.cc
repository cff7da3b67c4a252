#include "engine/schedule/preemption.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(PreemptionTest, OutputIsExpectedToBeTheMeanAndAPageMoreThanThereIs) {
  EXPECT_EQ(ExpectedOutput({}, 1000, 0), kUnknownOutput);
  EXPECT_EQ(ExpectedOutput({}, 100, 0), 100);
  const OutputHistory history = {.num_requests = 4, .num_tokens = 200};
  EXPECT_EQ(ExpectedOutput(history, 1000, 0), 50);
  EXPECT_EQ(ExpectedOutput(history, 1000, 18), 50);
  EXPECT_EQ(ExpectedOutput(history, 1000, 19), 51);
  EXPECT_EQ(ExpectedOutput(history, 1000, 500), 532);
  EXPECT_EQ(ExpectedOutput(history, 510, 500), 510);
  EXPECT_EQ(ExpectedOutput({.num_requests = 9, .num_tokens = 9}, 8, 0), 8);
}

SequenceSnapshot Of(uint64_t id, bool admitted, int64_t fork_pages = 0) {
  return {.id = SequenceId(id),
          .num_tokens = 9,
          .admitted = admitted,
          .fork_pages = fork_pages};
}

TEST(PreemptionTest, TheYoungestGivesWayAndTheOldestNever) {
  using Sequences = std::vector<SequenceSnapshot>;
  EXPECT_EQ(PreemptionVictim(Sequences{}), std::nullopt);
  EXPECT_EQ(PreemptionVictim(Sequences{Of(1, true)}), std::nullopt);
  EXPECT_EQ(PreemptionVictim(Sequences{Of(1, true), Of(2, true), Of(3, false)}),
            SequenceId(2));
  // Prefixes do not count.
  EXPECT_EQ(PreemptionVictim(Sequences{Of(1, true, 3), Of(2, true)}),
            std::nullopt);
  EXPECT_EQ(
      PreemptionVictim(Sequences{Of(1, true), Of(2, true), Of(3, true, 3)}),
      SequenceId(2));
}

TEST(PreemptionTest, WhoIsLayerwiseNeverGivesWay) {
  std::vector<SequenceSnapshot> sequences = {Of(1, true), Of(2, true),
                                             Of(3, true)};
  sequences[2].layerwise = true;
  sequences[2].num_computed = 8;  // Read, and it generates.
  EXPECT_EQ(PreemptionVictim(sequences), SequenceId(2));
  sequences[1].layerwise = true;
  EXPECT_EQ(PreemptionVictim(sequences), std::nullopt);
}

TEST(PreemptionTest, WhoseTurnIsLastGivesWay) {
  std::vector<SequenceSnapshot> sequences = {Of(1, true), Of(2, true),
                                             Of(3, true), Of(4, true)};
  sequences[1].priority = sequences[2].priority = 5;
  sequences[3].priority = -1;
  EXPECT_EQ(PreemptionVictim(sequences), SequenceId(3));
  sequences[2].num_overtaken = kMaxOvertaken;
  EXPECT_EQ(PreemptionVictim(sequences), SequenceId(2));
}

}  // namespace
}  // namespace winnow
