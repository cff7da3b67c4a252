#include "cli/simulate/simulate.h"

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
  EXPECT_EQ(plan->hint_source, HintSource::kNextRanks);
  EXPECT_EQ(plan->device.link_gb_s, 12);
  EXPECT_EQ(plan->device.memory_gb_s, 4264);
}

std::string ErrorOf(const SimulateFlags& flags) {
  const Result<SimulatePlan> plan = ParseSimulatePlan(flags);
  return plan.ok() ? "" : plan.error().message;
}

TEST(SimulateTest, ListsNameEachValueOnce) {
  SimulateFlags flags;
  flags.policies = "lru,age,lru";
  EXPECT_EQ(ErrorOf(flags),
            "--policy must name each value once, has \"lru\" again in "
            "\"lru,age,lru\"");
  flags = {};
  flags.cache_budgets = "4K,2x,4096";
  EXPECT_EQ(ErrorOf(flags),
            "--cache-budget must name each value once, has \"4096\" again in "
            "\"4K,2x,4096\"");
  flags = {};
  flags.slot_tokens = "8,8";
  EXPECT_TRUE(ErrorOf(flags).starts_with("--slot-tokens must name each"));
  flags = {};
  flags.batches = "1,16,1";
  EXPECT_TRUE(ErrorOf(flags).starts_with("--batch must name each"));
  flags = {};
  flags.contexts = "1K,1024";
  EXPECT_TRUE(ErrorOf(flags).starts_with("--context must name each"));
}

TEST(SimulateTest, AFlagThatChangesNothingIsRefused) {
  const auto with = [](const char* policies, auto set) {
    SimulateFlags flags;
    flags.policies = policies;
    set(flags);
    return ErrorOf(flags);
  };
  const auto resize = [](SimulateFlags& flags) { flags.resize_rows = 16; };
  EXPECT_EQ(with("lru,belady", resize),
            "--resize-rows needs a --policy that it is for (age, keep, hold or "
            "hint), is \"lru,belady\"");
  EXPECT_EQ(with("lru,age", resize), "");
  const auto ghosts = [](SimulateFlags& flags) { flags.ghosts = true; };
  EXPECT_EQ(with("age", ghosts),
            "--ghosts needs --resize-rows of at least 1, is 0");
  const auto decay = [](SimulateFlags& flags) { flags.decay = 0.9; };
  EXPECT_EQ(with("age,lru", decay),
            "--decay needs a --policy that it is for (mean-level, mean-score "
            "or decayed-use), is \"age,lru\"");
  EXPECT_EQ(with("age,decayed-use", decay), "");
  const auto hint_age = [](SimulateFlags& flags) { flags.least_hint_age = 1; };
  EXPECT_EQ(with("keep,hold", hint_age),
            "--least-hint-age needs a --policy that it is for (hint), is "
            "\"keep,hold\"");
  EXPECT_EQ(with("keep,hint", hint_age), "");
  const auto level = [](SimulateFlags& flags) { flags.hint_level = "2x"; };
  EXPECT_EQ(with("age", level),
            "--hint-level needs a --policy that it is for (keep, hold or "
            "hint), is \"age\"");
  EXPECT_EQ(with("age,keep", level), "");
  const auto source = [](SimulateFlags& flags) { flags.hint_source = "step"; };
  EXPECT_EQ(with("lru", source),
            "--hint-source needs a --policy that it is for (keep, hold or "
            "hint), is \"lru\"");
  EXPECT_EQ(with("keep", source), "");
  EXPECT_EQ(with("keep",
                 [&](SimulateFlags& flags) {
                   level(flags);
                   source(flags);
                 }),
            "--hint-level needs --hint-source ranks, is \"step\"");
  // Slots of any rule begin with ranks.
  EXPECT_EQ(with("lru",
                 [&](SimulateFlags& flags) {
                   level(flags);
                   flags.first_slots = "ranks";
                 }),
            "");
  const auto sums = [](SimulateFlags& flags) { flags.rates.all_reduce_us = 0; };
  EXPECT_EQ(with("age", sums),
            "--all-reduce-us needs several GPUs (--gpus, or such a "
            "--device-model), is one");
  EXPECT_EQ(with("age",
                 [](SimulateFlags& flags) {
                   flags.max_rows = 10;
                   flags.warm_rows = 10;
                 }),
            "--max-rows must be above --warm-rows (10), is 10");
}

TEST(SimulateTest, ALevelThatNoTraceHasIsNoHints) {
  SimulateFlags flags;
  flags.trace = "a.trace";
  flags.policies = "keep";
  TraceHeader header;
  header.levels = {500, 1000, 1500, 2000};
  const auto level_of = [&] {
    return HintLevelOf(*ParseSimulatePlan(flags), flags, header);
  };
  EXPECT_EQ(*level_of(), 3);
  flags.hint_level = "1.9x";
  EXPECT_EQ(*level_of(), 2);
  flags.hint_level = "9x";
  EXPECT_EQ(level_of().error().message,
            "--hint-level must be at most 2x, the greatest level of a.trace, "
            "is 9x");
  header.levels = {1000};
  flags.hint_level = "";
  EXPECT_EQ(*level_of(), 0);
}

TEST(SimulateTest, NothingBesidesBytesIsABound) {
  SimulateFlags flags;
  flags.rates.layer_us = 0;
  flags.rates.num_gpus = 2;
  flags.rates.all_reduce_us = 0;
  const DeviceModel device = ParseSimulatePlan(flags)->device;
  EXPECT_EQ(device.layer_us, 0);
  EXPECT_EQ(device.all_reduce_us, 0);
  EXPECT_EQ(device.all_reduce_gb_s, 367);
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
  flags.rates.num_gpus = 4;
  flags.rates.all_reduce_us = 7;
  flags.rates.host_gib = 512;
  const Result<SimulatePlan> plan = ParseSimulatePlan(flags);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->contexts, (std::vector<int64_t>{16384, 1 << 20, 5000}));
  EXPECT_EQ(plan->device.num_gpus, 4);
  EXPECT_EQ(plan->device.all_reduce_us, 7);
  EXPECT_EQ(plan->device.all_reduce_gb_s, 245);
  EXPECT_EQ(plan->device.host_gib, 512);
  flags.rates.num_gpus = 0;
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
