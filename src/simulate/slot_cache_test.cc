// Rules against one another and against oracles that share nothing with them.
#include "simulate/slot_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <set>

#include "simulate/random_trace.h"

namespace winnow {
namespace {

using Steps = std::vector<StepPieces>;

// Of one layer and KV head of a random trace.
Steps RandomSteps(uint64_t seed, bool in_parts, int* num_levels) {
  std::mt19937_64 random(seed);
  const TraceHeader header = RandomTraceHeader(random);
  *num_levels = static_cast<int>(header.levels.size());
  const RandomTraceOptions options = {.max_pages = 30,
                                      .max_steps = 60,
                                      .stays = seed % 2 == 0 ? 0.5 : 0.9,
                                      .in_parts = in_parts};
  const int slot_tokens = in_parts ? 8 << (random() % 3) : kPageTokens;
  return PiecesOf(
      header, RandomTraceRequest(header, options, random),
      {.slot_tokens = slot_tokens, .hint_level = header.budget_level()})[0];
}

int64_t MissesOf(const SlotRuleOptions& options, const Steps& steps,
                 int num_slots) {
  const std::unique_ptr<SlotCache> cache = MakeSlotCache(options, steps);
  cache->Resize(num_slots);
  SlotCounts counts;
  for (const StepPieces& step : steps) cache->Fetch(step, counts);
  EXPECT_LE(counts.missed, counts.wanted);
  EXPECT_LE(counts.of(kFetchedCount), counts.missed);
  return counts.missed;
}

// Pieces that a step needs in slots, each once, in the order of its picks.
std::vector<uint32_t> Needed(const StepPieces& step) {
  std::vector<uint32_t> needed;
  for (const WantedPiece& pick : step.picks) {
    if (pick.page_is_whole) continue;
    if (std::ranges::find(needed, pick.piece) == needed.end()) {
      needed.push_back(pick.piece);
    }
  }
  return needed;
}

// The least number of misses that any choice of what to keep allows, by trying
// all of them. A state is what is near.
int64_t LeastMisses(const Steps& steps, size_t num_slots) {
  using State = std::set<uint32_t>;
  std::map<State, int64_t> states = {{{}, 0}};
  for (const StepPieces& step : steps) {
    std::map<State, int64_t> next;
    for (const auto& [state, misses] : states) {
      const std::vector<uint32_t> needed = Needed(step);
      int64_t missed = 0;
      State all = state;
      for (const uint32_t piece : needed) {
        missed += state.contains(piece) ? 0 : 1;
        all.insert(piece);
      }
      const std::vector<uint32_t> pool(all.begin(), all.end());
      for (uint32_t kept = 0; kept < (1u << pool.size()); ++kept) {
        if (static_cast<size_t>(std::popcount(kept)) > num_slots) continue;
        State near;
        for (size_t i = 0; i < pool.size(); ++i) {
          if ((kept >> i & 1) != 0) near.insert(pool[i]);
        }
        const auto [at, is_new] = next.try_emplace(near, misses + missed);
        if (!is_new) at->second = std::min(at->second, misses + missed);
      }
    }
    states = std::move(next);
  }
  return std::ranges::min_element(
             states, {}, [](const auto& state) { return state.second; })
      ->second;
}

TEST(SlotCacheTest, BeladyHasTheFewestMissesThatThereAre) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Steps steps(8);
    for (StepPieces& step : steps) {
      for (uint64_t i = 1 + random() % 3; i > 0; --i) {
        step.picks.push_back({static_cast<uint32_t>(random() % 6), false});
      }
    }
    const size_t num_slots = 1 + random() % 4;
    EXPECT_EQ(MissesOf({.rule = SlotRule::kBelady}, steps,
                       static_cast<int>(num_slots)),
              LeastMisses(steps, num_slots))
        << "seed " << seed << " slots " << num_slots;
  }
}

TEST(SlotCacheTest, NoRuleHasFewerMissesThanBelady) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    int num_levels = 1;
    const Steps steps = RandomSteps(seed, seed % 3 == 0, &num_levels);
    for (const int num_slots : {0, 3, 17, 60}) {
      const int64_t least =
          MissesOf({.rule = SlotRule::kBelady}, steps, num_slots);
      for (const SlotRule rule :
           {SlotRule::kAge, SlotRule::kLru, SlotRule::kLfu, SlotRule::kLevel,
            SlotRule::kMeanLevel, SlotRule::kScore, SlotRule::kMeanScore,
            SlotRule::kDecayedUse}) {
        EXPECT_GE(MissesOf({.rule = rule, .num_levels = num_levels}, steps,
                           num_slots),
                  least)
            << kSlotRuleNames[static_cast<size_t>(rule)] << " seed " << seed
            << " slots " << num_slots;
      }
    }
  }
}

// A list, the least recently used in front; a step's own pieces stay.
int64_t LruMisses(const Steps& steps, size_t num_slots) {
  std::list<uint32_t> order;
  int64_t misses = 0;
  for (const StepPieces& step : steps) {
    const std::vector<uint32_t> needed = Needed(step);
    const std::set<uint32_t> own(needed.begin(), needed.end());
    std::vector<uint32_t> missing;
    for (const uint32_t piece : needed) {
      const auto at = std::ranges::find(order, piece);
      if (at == order.end()) {
        missing.push_back(piece);
      } else {
        order.splice(order.end(), order, at);
      }
    }
    misses += std::ssize(missing);
    for (const uint32_t piece : missing) {
      if (order.size() == num_slots) {
        const auto victim = std::ranges::find_if(
            order, [&](uint32_t other) { return !own.contains(other); });
        if (victim == order.end()) break;
        order.erase(victim);
      }
      order.push_back(piece);
    }
  }
  return misses;
}

// Workloads in which no two pieces that stay have the same last use, so that
// nothing is left to ties: a piece a step.
Steps OnePieceASteps(uint64_t seed) {
  std::mt19937_64 random(seed);
  Steps steps(300);
  for (StepPieces& step : steps) {
    const uint64_t spread = random() % 4 == 0 ? 40 : 8;
    step.picks = {{static_cast<uint32_t>(random() % spread), false}};
  }
  return steps;
}

TEST(SlotCacheTest, LruIsTheLeastRecentlyUsedOfAList) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Steps steps = OnePieceASteps(seed);
    for (const size_t num_slots : {1u, 5u, 12u, 30u}) {
      EXPECT_EQ(MissesOf({.rule = SlotRule::kLru}, steps,
                         static_cast<int>(num_slots)),
                LruMisses(steps, num_slots))
          << "seed " << seed << " slots " << num_slots;
    }
  }
}

// Counts of what is near, each with its last use.
int64_t LfuMisses(const Steps& steps, size_t num_slots) {
  std::map<uint32_t, std::pair<int64_t, int64_t>> near;
  int64_t misses = 0, now = 0;
  for (const StepPieces& step : steps) {
    ++now;
    const uint32_t piece = step.picks[0].piece;
    if (const auto at = near.find(piece); at != near.end()) {
      at->second = {at->second.first + 1, now};
      continue;
    }
    ++misses;
    if (near.size() == num_slots) {
      near.erase(std::ranges::min_element(
          near, {}, [](const auto& entry) { return entry.second; }));
    }
    near[piece] = {1, now};
  }
  return misses;
}

TEST(SlotCacheTest, LfuIsTheLeastOftenUsed) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Steps steps = OnePieceASteps(seed);
    for (const size_t num_slots : {1u, 5u, 12u, 30u}) {
      EXPECT_EQ(MissesOf({.rule = SlotRule::kLfu}, steps,
                         static_cast<int>(num_slots)),
                LfuMisses(steps, num_slots))
          << "seed " << seed << " slots " << num_slots;
    }
  }
}

// What this step's lists say decides: page 1 is a next rank, page 2 none.
TEST(SlotCacheTest, ByLevelGoesWhatNoListNames) {
  const std::vector<StepPieces> steps = {
      {.picks = {{1, false}, {2, false}},
       .hints = {},
       .ranked = {{1, 0}, {2, 0}}},
      {.picks = {{3, false}}, .hints = {}, .ranked = {{1, 1}, {3, 0}}},
      {.picks = {{4, false}}, .hints = {}, .ranked = {{3, 1}, {4, 0}}}};
  const std::unique_ptr<SlotCache> cache =
      MakeSlotCache({.rule = SlotRule::kLevel, .num_levels = 2}, steps);
  cache->Resize(2);
  SlotCounts counts;
  cache->Fetch(steps[0], counts);
  cache->Fetch(steps[1], counts);
  const auto near = [&](uint32_t piece) {
    return std::ranges::count(cache->tags(), piece) == 1;
  };
  EXPECT_TRUE(near(1) && near(3));
  cache->Fetch(steps[2], counts);
  EXPECT_TRUE(near(3) && near(4));
  EXPECT_EQ(counts.missed, 4);
}

// Piece 1 was used last but scores less than piece 2, and once more than it.
TEST(SlotCacheTest, ByScoreGoesTheLeastOfTheStepOrOfItsMean) {
  const std::vector<StepPieces> steps = {
      {.picks = {{2, false}}, .hints = {}, .ranked = {{2, 0, 0.9f}}},
      {.picks = {{1, false}},
       .hints = {},
       .ranked = {{1, 0, 0.3f}, {2, 0, 0.9f}}},
      {.picks = {{3, false}},
       .hints = {},
       .ranked = {{1, 1, 0.5f}, {2, 1, 0.4f}, {3, 0, 1.0f}}}};
  for (const SlotRule rule : {SlotRule::kScore, SlotRule::kMeanScore}) {
    const std::unique_ptr<SlotCache> cache =
        MakeSlotCache({.rule = rule, .decay = 0.9}, steps);
    cache->Resize(2);
    SlotCounts counts;
    for (const StepPieces& step : steps) cache->Fetch(step, counts);
    const uint32_t kept = rule == SlotRule::kScore ? 1 : 2;
    EXPECT_EQ(std::ranges::count(cache->tags(), kept), 1);
    EXPECT_EQ(std::ranges::count(cache->tags(), 3u), 1);
    EXPECT_EQ(counts.missed, 3);
  }
}

}  // namespace
}  // namespace winnow
