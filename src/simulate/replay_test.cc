#include "simulate/replay.h"

#include <gtest/gtest.h>

#include "simulate/random_trace.h"

namespace winnow {
namespace {

struct Traced {
  TraceHeader header;
  TraceRequest request;
};

Traced RandomTraced(uint64_t seed) {
  std::mt19937_64 random(seed);
  Traced traced;
  traced.header = RandomTraceHeader(random);
  traced.request = RandomTraceRequest(traced.header, {.max_steps = 80}, random);
  return traced;
}

ReplayOptions OptionsOf(const Traced& traced, SlotRule rule, double times) {
  ReplayOptions options;
  options.rule.rule = rule;
  options.rule.num_levels = static_cast<int>(traced.header.levels.size());
  options.budget.times = times;
  return options;
}

ReplayInput InputOf(const Traced& traced) {
  return {traced.header,
          traced.request,
          {.hint_level = traced.header.budget_level()}};
}

// Two layers of one KV head; rows read two of four pages besides their own.
Traced Alternating() {
  Traced traced;
  traced.header.num_q_heads = traced.header.num_kv_heads = 1;
  traced.header.head_dim = 64;
  traced.header.kv_element_bytes = 2;
  traced.header.chooses = {true, false, true};
  traced.header.levels = {kBudgetLevel};
  traced.request.first_position = 128;
  for (uint32_t i = 0; i < 10; ++i) {
    const uint32_t first = i % 2 * 2;
    const TraceList list = {
        .bands = {{{first, ~0u}, {first + 1, ~0u}, {4, ~0u >> (31 - i)}}}};
    traced.request.steps.push_back(
        {.num_rows = 1, .layers = {{{list}}, {{list}}}});
  }
  return traced;
}

TEST(ReplayTest, CountsWhatRowsNeed) {
  const Traced traced = Alternating();
  EXPECT_EQ(MostSelected(traced.header, traced.request), 64 + 10);
  ReplayOptions options = OptionsOf(traced, SlotRule::kAge, 0);
  options.budget.tokens = 64;
  const ReplayTotals all = Replay(InputOf(traced), options);
  EXPECT_EQ(all.num_rows, 10);
  EXPECT_EQ(all.counts.wanted, 2 * 10 * 2);
  EXPECT_EQ(all.counts.missed, 2 * 10 * 2);
  EXPECT_EQ(all.counts.of(kPicksCount), 2 * 10 * 3);
  EXPECT_EQ(all.counts.of(kMissesCount), 2 * 10 * 2);
  EXPECT_EQ(all.hit_rate(), 0);
  EXPECT_EQ(all.slot_tokens, 10 * 2 * 64);
  EXPECT_EQ(all.context_tokens, 10 * 128 + 55);
  EXPECT_EQ(all.read_tokens, 2 * (10 * 64 + 55));
  options.budget.tokens = 128;
  EXPECT_EQ(Replay(InputOf(traced), options).hit_rate(), 0.8);
  options.warm_rows = 2;
  const ReplayTotals warm = Replay(InputOf(traced), options);
  EXPECT_EQ(warm.hit_rate(), 1);
  EXPECT_EQ(warm.num_rows, 8);
}

// Pages 0 and 1 are picked by the first row, 2 and 3 by the second, and so on;
// page 4 is open.
TEST(ReplayTest, SlotsMayHoldSomethingAtFirst) {
  const Traced traced = Alternating();
  ReplayOptions options = OptionsOf(traced, SlotRule::kAge, 0);
  options.budget.tokens = 64;
  const auto missed = [&](FirstSlots what, int max_rows) {
    options.first_slots = what;
    options.max_rows = max_rows;
    const ReplayTotals totals = Replay(InputOf(traced), options);
    EXPECT_EQ(totals.num_rows, std::min(max_rows, 10) - 1);
    return totals.counts.missed;
  };
  EXPECT_EQ(missed(FirstSlots::kEmpty, 2), 2 * 2);
  EXPECT_EQ(missed(FirstSlots::kPicks, 2), 2 * 2);
  EXPECT_EQ(missed(FirstSlots::kNewest, 2), 0);
  EXPECT_EQ(missed(FirstSlots::kNewest, 99), 2 * 8 * 2);
  options.budget.tokens = 128;
  EXPECT_EQ(missed(FirstSlots::kEmpty, 99), 2 * 4);
  EXPECT_EQ(missed(FirstSlots::kPicks, 99), 2 * 2);
  EXPECT_EQ(missed(FirstSlots::kRanks, 99), 2 * 2);
  EXPECT_EQ(missed(FirstSlots::kNewest, 99), 0);
}

// As many as fit a frame: what is near does not depend on how long they are.
TEST(ReplayTest, ShorterSlotsHoldAsMuch) {
  const Traced traced = Alternating();
  ReplayOptions options = OptionsOf(traced, SlotRule::kAge, 0);
  options.budget.tokens = 128;
  for (const int slot_tokens : {8, 16, 32}) {
    const ReplayInput input(traced.header, traced.request,
                            {.slot_tokens = slot_tokens,
                             .hint_level = traced.header.budget_level()});
    const ReplayTotals totals = Replay(input, options);
    EXPECT_EQ(totals.counts.wanted, 2 * 10 * 2 * (32 / slot_tokens));
    EXPECT_EQ(totals.hit_rate(), 0.8) << slot_tokens;
  }
}

// Belady knows: of two pages that leave it keeps none in vain.
TEST(ReplayTest, TheFutureIsTheRequestsOwn) {
  const Traced traced = Alternating();
  ReplayOptions options = OptionsOf(traced, SlotRule::kBelady, 0);
  options.budget.tokens = 96;
  const double belady = Replay(InputOf(traced), options).hit_rate();
  options.rule.rule = SlotRule::kLru;
  const double lru = Replay(InputOf(traced), options).hit_rate();
  EXPECT_GT(belady, lru);
}

TEST(ReplayTest, AllIsNearWhereSlotsHoldAll) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Traced traced = RandomTraced(seed);
    for (const SlotRule rule : {SlotRule::kAge, SlotRule::kLru,
                                SlotRule::kMeanLevel, SlotRule::kBelady}) {
      ReplayOptions options = OptionsOf(traced, rule, 0);
      options.budget.tokens = 1 << 20;
      const ReplayTotals totals = Replay(InputOf(traced), options);
      // Each piece comes once.
      EXPECT_LE(totals.counts.missed,
                traced.header.num_choosing_layers() *
                    traced.header.num_kv_heads *
                    PagesFor(traced.request.first_position +
                             traced.request.num_rows()))
          << "seed " << seed;
    }
  }
}

// Frames change layers and not their number, and answers repeat.
TEST(ReplayTest, FramesMoveBetweenLayers) {
  int num_other = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Traced traced = RandomTraced(seed);
    ReplayOptions options = OptionsOf(traced, SlotRule::kAge, 0.5);
    const ReplayTotals fixed = Replay(InputOf(traced), options);
    options.resize_rows = 10;
    const ReplayTotals moved = Replay(InputOf(traced), options);
    EXPECT_EQ(moved.slot_tokens, fixed.slot_tokens);
    EXPECT_EQ(moved.counts.wanted, fixed.counts.wanted);
    EXPECT_EQ(Replay(InputOf(traced), options).counts.fetch,
              moved.counts.fetch);
    num_other += moved.counts.fetch != fixed.counts.fetch ? 1 : 0;
  }
  EXPECT_GT(num_other, 0);
}

// The first layer always reads the same two pages, the second one two of ten.
TEST(ReplayTest, FramesMoveToWhoMisses) {
  std::mt19937_64 random(1);
  Traced traced = Alternating();
  traced.request.first_position = 320;
  traced.request.steps.clear();
  for (int i = 0; i < 200; ++i) {
    const auto page = static_cast<uint32_t>(random() % 9);
    const TraceList same = {.bands = {{{0, ~0u}, {1, ~0u}}}};
    const TraceList other = {.bands = {{{page, ~0u}, {page + 1, ~0u}}}};
    traced.request.steps.push_back(
        {.num_rows = 1, .layers = {{{same}}, {{other}}}});
  }
  ReplayOptions options = OptionsOf(traced, SlotRule::kAge, 0);
  options.budget.tokens = 5 * kPageTokens;
  const double fixed = Replay(InputOf(traced), options).hit_rate();
  options.resize_rows = 20;
  EXPECT_GT(Replay(InputOf(traced), options).hit_rate(), fixed + 0.05);
  options.ghosts = true;
  EXPECT_GT(Replay(InputOf(traced), options).hit_rate(), fixed + 0.05);
}

}  // namespace
}  // namespace winnow
