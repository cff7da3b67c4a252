#include "cli/simulate.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(SimulateTest, ListsAreReadInTheirOrder) {
  SimulateFlags flags;
  flags.cache_budgets = "5x,4K,0.5x";
  flags.policies = "belady,hold";
  flags.slot_tokens = "32,8";
  flags.batches = "64,1";
  flags.hint_level = "1.5x";
  flags.hint_source = "layer";
  flags.rates.link_gb_s = 12;
  const Result<SimulatePlan> plan = ParseSimulatePlan(flags);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->budgets.size(), 3u);
  EXPECT_EQ(plan->budgets[0].times, 5);
  EXPECT_EQ(plan->budgets[1].tokens, 4096);
  EXPECT_EQ(plan->budgets[2].times, 0.5);
  EXPECT_EQ(plan->rules,
            (std::vector<SlotRule>{SlotRule::kBelady, SlotRule::kHold}));
  EXPECT_EQ(plan->slot_tokens, (std::vector<int>{32, 8}));
  EXPECT_EQ(plan->batches, (std::vector<int64_t>{64, 1}));
  EXPECT_EQ(plan->hint_level, 1500);
  EXPECT_EQ(plan->hint_source, HintSource::kPreviousLayer);
  EXPECT_EQ(plan->device.link_gb_s, 12);
  EXPECT_EQ(plan->device.memory_gb_s, 4264);
}

TEST(SimulateTest, FirstSlotsKnowNoFuture) {
  SimulateFlags flags;
  EXPECT_FALSE(ParseSimulatePlan(flags)->first_slots);
  flags.first_slots = "newest";
  EXPECT_EQ(ParseSimulatePlan(flags).error().message,
            "--first-slots needs a --policy without belady, which knows what "
            "comes");
  flags.policies = "keep,lru";
  EXPECT_EQ(ParseSimulatePlan(flags)->first_slots, FirstSlots::kNewest);
  flags.first_slots = "all";
  EXPECT_EQ(ParseSimulatePlan(flags).error().message,
            "--first-slots must be one of empty, newest, picks, ranks, is "
            "\"all\"");
}

// Llama-3.1-8B has 8.03 billion weights; a step reads all but the embedding.
TEST(SimulateTest, AShapeHasItsWeights) {
  const SimulatePlan plan = *ParseSimulatePlan({});
  EXPECT_EQ(plan.model.num_weights, 7'504'658'432);
  EXPECT_EQ(plan.model.num_layers, 32);
  EXPECT_EQ(plan.model.token_bytes(), 2 * 128 * 2);
}

TEST(SimulateTest, ContextsAndGpusAreRead) {
  SimulateFlags flags;
  flags.contexts = "16K,1M,5000";
  flags.device_model = "a100-40gb";
  flags.num_gpus = 4;
  flags.rates.all_reduce_us = 7;
  flags.rates.host_gib = 512;
  const Result<SimulatePlan> plan = ParseSimulatePlan(flags);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->contexts, (std::vector<int64_t>{16384, 1 << 20, 5000}));
  EXPECT_EQ(plan->device.num_gpus, 4);
  EXPECT_EQ(plan->device.all_reduce_us, 7);
  EXPECT_EQ(plan->device.all_reduce_gb_s, 245);
  EXPECT_EQ(plan->device.host_gib, 512);
  flags.num_gpus = 0;
  flags.device_model = "h200x8";
  EXPECT_EQ(ParseSimulatePlan(flags)->device.num_gpus, 8);
  for (const char* text : {"0", "2M", "1M,", "x", "-1"}) {
    flags.contexts = text;
    const Result<SimulatePlan> wrong = ParseSimulatePlan(flags);
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_TRUE(wrong.error().message.starts_with("--context must be"))
        << wrong.error().message;
  }
}

}  // namespace
}  // namespace winnow
