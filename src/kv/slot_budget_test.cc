#include "kv/slot_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace winnow {
namespace {

using Trace = std::vector<std::vector<int>>;  // by step: pages

// Pages by a power law whose favourites drift.
Trace DriftingTrace(uint32_t seed, double exponent, int num_pages) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  Trace trace;
  for (int step = 0; step < 2000; ++step) {
    std::vector<bool> picked(static_cast<size_t>(num_pages));
    for (int i = 0; i < 16; ++i) {
      const double rank = std::pow(uniform(random), exponent) * num_pages;
      picked[static_cast<size_t>(static_cast<int>(rank) + step / 40) %
             picked.size()] = true;
    }
    auto& of_step = trace.emplace_back();
    for (int page = 0; page < num_pages; ++page) {
      if (picked[static_cast<size_t>(page)]) of_step.push_back(page);
    }
  }
  return trace;
}

// A cache of exactly the least recently used, one slot a frame: as Fetch, it
// looks up all of a step's pages before it makes room for any.
SlotUsage Replay(const Trace& trace, int num_frames) {
  SlotUsage usage;
  usage.num_frames = num_frames;
  std::list<int> by_use;  // most recent first
  std::map<int, size_t> used_at;
  for (size_t step = 0; step < trace.size(); ++step) {
    std::vector<int> missing;
    for (const int page : trace[step]) {
      const auto used = used_at.find(page);
      if (used == used_at.end()) {
        missing.push_back(page);
        continue;
      }
      ++usage.hits_by_age[std::min<size_t>(step - used->second - 1, 63)];
      by_use.remove(page);
      by_use.push_front(page);
      used->second = step;
    }
    for (const int page : missing) {
      ++usage.num_misses;
      if (std::ssize(by_use) == num_frames) {
        used_at.erase(by_use.back());
        by_use.pop_back();
      }
      by_use.push_front(page);
      used_at[page] = step;
    }
    for (const int page : by_use) {
      ++usage.slots_by_age[std::min<size_t>(step - used_at[page], 63)];
    }
    usage.slots_by_age[64] += num_frames - std::ssize(by_use);
  }
  return usage;
}

int64_t NumPicks(const Trace& trace) {
  int64_t count = 0;
  for (const auto& step : trace) count += std::ssize(step);
  return count;
}

// What a smaller budget would have missed, from the counts of the larger one
// alone, against the smaller one itself: within two points of the picks.
TEST(SlotBudgetTest, CountsTellWhatASmallerBudgetMisses) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const Trace trace = DriftingTrace(seed, seed % 2 == 0 ? 2.0 : 4.0, 300);
    const SlotUsage usage = Replay(trace, 120);
    const auto picks = static_cast<double>(NumPicks(trace));
    for (const int frames : {30, 40, 60, 80, 100, 120}) {
      const auto expected =
          static_cast<double>(Replay(trace, frames).num_misses);
      EXPECT_NEAR(MissesWith(usage, frames) / picks, expected / picks, 0.02)
          << "seed " << seed << " frames " << frames;
    }
  }
}

// Beyond what was counted the curve is a guess, that errs to the sparing side.
TEST(SlotBudgetTest, ALargerBudgetSavesAsTheLastQuarterDid) {
  const Trace trace = DriftingTrace(9, 2.0, 300);
  const SlotUsage usage = Replay(trace, 60);
  const auto picks = static_cast<double>(NumPicks(trace));
  const auto expected = static_cast<double>(Replay(trace, 70).num_misses);
  EXPECT_NEAR(MissesWith(usage, 70) / picks, expected / picks, 0.05);
  EXPECT_LT(MissesWith(usage, 70), MissesWith(usage, 60));
  EXPECT_GE(MissesWith(usage, 6000), 0);
}

TEST(SlotBudgetTest, TheCurveNeverRises) {
  const SlotUsage usage = Replay(DriftingTrace(3, 3.0, 200), 50);
  for (int frames = 1; frames < 100; ++frames) {
    EXPECT_LE(MissesWith(usage, frames), MissesWith(usage, frames - 1) + 1e-6);
  }
}

TEST(SlotBudgetTest, FramesGoToWhereTheySaveMost) {
  // One reads the same pages again and again, the other many.
  const std::vector<SlotUsage> usages = {
      Replay(DriftingTrace(1, 9.0, 300), 64),
      Replay(DriftingTrace(2, 1.5, 300), 64)};
  const FrameLimits limits = {.least = 8, .most = 300, .step = 4};
  const std::vector<int> frames = Redistribute(usages, limits);
  EXPECT_LT(frames[0], 64);
  EXPECT_GT(frames[1], 64);
  EXPECT_EQ(frames[0] + frames[1], 128);
  EXPECT_GE(frames[0], limits.least);
  const double before = MissesWith(usages[0], 64) + MissesWith(usages[1], 64);
  const double after =
      MissesWith(usages[0], frames[0]) + MissesWith(usages[1], frames[1]);
  EXPECT_LT(after, before);
}

// What is lost with the slots that change hands is a miss each.
TEST(SlotBudgetTest, WhatSavesLessThanItEmptiesStays) {
  SlotUsage idle = {.num_frames = 8},
            busy = {.num_frames = 8, .num_misses = 500};
  idle.slots_by_age[60] = busy.slots_by_age[60] = 64;
  busy.hits_by_age[60] = 64;  // A frame saves eight misses.
  const std::vector<SlotUsage> usages = {idle, busy};
  const auto moved = [&](int slots_a_frame) {
    return Redistribute(
        usages,
        {.least = 6, .most = 10, .step = 1, .slots_a_frame = slots_a_frame});
  };
  EXPECT_EQ(moved(0), (std::vector<int>{6, 10}));
  EXPECT_EQ(moved(7), (std::vector<int>{6, 10}));
  EXPECT_EQ(moved(8), (std::vector<int>{8, 8}));
}

TEST(SlotBudgetTest, LimitsGoWithTheShare) {
  const FrameLimits limits = LimitsFor(40, 70, 16);
  EXPECT_EQ(limits.least, 20);
  EXPECT_EQ(limits.most, 70);
  EXPECT_EQ(limits.step, 2);
  EXPECT_EQ(limits.slots_a_frame, 16);
  EXPECT_EQ(LimitsFor(1, 70, 16).least, 1);
  EXPECT_EQ(LimitsFor(1, 70, 16).most, 2);
  EXPECT_EQ(LimitsFor(1, 70, 16).step, 1);
}

TEST(SlotBudgetTest, AlikeKeepWhatTheyHave) {
  const SlotUsage usage = Replay(DriftingTrace(4, 2.0, 300), 64);
  const std::vector<SlotUsage> usages = {usage, usage, usage};
  EXPECT_EQ(Redistribute(usages, {.least = 8, .most = 128, .step = 4}),
            (std::vector<int>{64, 64, 64}));
  EXPECT_EQ(Redistribute(std::vector<SlotUsage>{usage},
                         {.least = 8, .most = 128, .step = 4}),
            std::vector<int>{64});
}

TEST(SlotBudgetTest, ABudgetIsTokensOrAMultiple) {
  EXPECT_EQ((CacheBudget{.tokens = 4096}).FramesFor(2048, 1 << 20), 128);
  EXPECT_EQ((CacheBudget{.tokens = 4097}).FramesFor(2048, 1 << 20), 129);
  EXPECT_EQ((CacheBudget{.times = 4}).FramesFor(2048, 1 << 20), 256);
  EXPECT_EQ((CacheBudget{.times = 2.5}).FramesFor(33, 1 << 20), 3);
  EXPECT_EQ((CacheBudget{.times = 4}).FramesFor(2048, 1000), 32);
}

TEST(SlotBudgetTest, FramesFillWholeKvBlocks) {
  using Frames = std::vector<int>;
  EXPECT_EQ(FillKvBlocks(3, {true, true}), (Frames{3, 3}));
  EXPECT_EQ(FillKvBlocks(3, {false, true, false, true}), (Frames{0, 4, 0, 4}));
  EXPECT_EQ(FillKvBlocks(3, {true, false, true, true}), (Frames{4, 0, 4, 4}));
  EXPECT_EQ(FillKvBlocks(1, {true, false, true, true}), (Frames{2, 0, 1, 1}));
  EXPECT_EQ(FillKvBlocks(1, {false, false, true}), (Frames{0, 0, 3}));
  for (int num_frames = 1; num_frames < 20; ++num_frames) {
    const Frames frames =
        FillKvBlocks(num_frames, {true, true, false, true, true, false, true});
    EXPECT_EQ(std::accumulate(frames.begin(), frames.end(), 0) % 7, 0);
    EXPECT_LT(std::ranges::max(frames) - num_frames, 3) << num_frames;
  }
}

}  // namespace
}  // namespace winnow
