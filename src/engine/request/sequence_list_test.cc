#include "engine/request/sequence_list.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

SequenceId AddTo(SequenceList& list, std::optional<SequenceId> prefix = {}) {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 1;
  request.prefix = prefix;
  const SequenceId id = list.TakeId();
  list.Add(std::make_unique<Sequence>(id, std::move(request), RequestRope(),
                                      nullptr));
  return id;
}

TEST(SequenceListTest, SequencesAreFoundUntilTheyAreRemoved) {
  SequenceList list;
  const SequenceId first = AddTo(list), second = AddTo(list),
                   third = AddTo(list);
  list.Remove(second);
  EXPECT_EQ(list.Get(first).id(), first);
  EXPECT_EQ(list.Find(second), nullptr);
  EXPECT_EQ(list.Get(third).id(), third);
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list.Find(SequenceId(9)), nullptr);
  EXPECT_GT(AddTo(list), third);
}

TEST(SequenceListTest, KnowsForksAndTheRowsOfAPlan) {
  SequenceList list;
  const SequenceId prefix = AddTo(list), fork = AddTo(list, prefix),
                   other = AddTo(list), last = AddTo(list, prefix);
  EXPECT_EQ(list.ForksOf(prefix), (std::vector<SequenceId>{fork, last}));
  EXPECT_TRUE(list.ForksOf(other).empty());
  const StepPlan plan = {.items = {{.sequence = fork}, {.sequence = last}}};
  list.Remove(fork);
  EXPECT_TRUE(list.KnowsAnyOf(plan));
  list.Remove(last);
  EXPECT_FALSE(list.KnowsAnyOf(plan));
}

}  // namespace
}  // namespace winnow
