#include "simulate/length_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace winnow {
namespace {

RowWork Work(double context, double read, double miss_share) {
  RowWork work;
  work.context_tokens = context;
  work.dense_layers = 2;
  work.summary_bytes = 16;
  work.read_tokens = 4 * read;
  work.wanted_tokens = read;
  work.missed_tokens = miss_share * read;
  work.hinted_tokens = 0.01 * read;
  work.slot_tokens = 3 * read;
  return work;
}

TEST(LengthFitTest, LengthsNearAPowerOfTwoAreOneClass) {
  EXPECT_EQ(LengthClass(4096), 12);
  EXPECT_EQ(LengthClass(3000), 12);
  EXPECT_EQ(LengthClass(5700), 12);
  EXPECT_EQ(LengthClass(5800), 13);
  EXPECT_EQ(LengthClass(0), 0);
}

// A budget of tokens reads no more in longer contexts, and nine tenths as much
// is near each time that they are twice as long.
TEST(LengthFitTest, WhatIsStraightGoesOn) {
  const std::vector<RowWork> recorded = {
      Work(4096, 1000, 0.10), Work(8192, 1000, 0.19), Work(16384, 1000, 0.271)};
  const RowWork at = WorkAtLength(recorded, 1 << 20);
  EXPECT_EQ(at.context_tokens, 1 << 20);
  EXPECT_NEAR(at.read_tokens, 4000, 1e-6);
  EXPECT_NEAR(at.slot_tokens, 3000, 1e-6);
  EXPECT_NEAR(at.hit_rate(), std::pow(0.9, 9), 1e-9);
  EXPECT_NEAR(at.hinted_tokens, 10, 1e-6);
  EXPECT_EQ(at.dense_layers, 2);
  EXPECT_EQ(at.summary_bytes, 16);
  // A share of the context.
  const std::vector<RowWork> shares = {Work(4096, 256, 0.1),
                                       Work(16384, 1024, 0.1)};
  const RowWork of_share = WorkAtLength(shares, 131072);
  EXPECT_NEAR(of_share.wanted_tokens, 8192, 1e-6);
  EXPECT_NEAR(of_share.slot_tokens, 3 * 8192, 1e-6);
  EXPECT_NEAR(1 - of_share.hit_rate(), 0.1, 1e-9);
}

TEST(LengthFitTest, RecordedLengthsAreWhatTheyWere) {
  const std::vector<RowWork> recorded = {
      Work(4000, 900, 0.2), Work(7900, 1000, 0.1), Work(16000, 950, 0.4)};
  for (const RowWork& work : recorded) {
    const RowWork at = WorkAtLength(recorded, work.context_tokens);
    EXPECT_NEAR(at.read_tokens, work.read_tokens, 1e-6);
    EXPECT_NEAR(at.missed_tokens, work.missed_tokens, 1e-6);
  }
  const RowWork between = WorkAtLength(recorded, std::sqrt(7900.0 * 16000));
  EXPECT_NEAR(between.hit_rate(), std::sqrt(0.9 * 0.6), 1e-9);
  EXPECT_NEAR(between.wanted_tokens, std::sqrt(1000.0 * 950), 1e-6);
}

// Longer contexts never miss less than the longest recorded, miss all at most,
// read no less and no more than in proportion, and have no more slots than
// tokens.
TEST(LengthFitTest, BehindTheLongestNothingGetsBetter) {
  std::mt19937_64 random(1);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<RowWork> recorded;
    double context = between(3000, 5000);
    for (int i = 0; i < 2 + round % 4; ++i, context *= between(1.5, 3)) {
      recorded.push_back(Work(context, between(100, 900), between(0, 1)));
    }
    const RowWork& last = recorded.back();
    double misses = 1 - last.hit_rate(), read = last.read_tokens;
    for (double at = last.context_tokens; at < (1 << 21); at *= 1.7) {
      const RowWork work = WorkAtLength(recorded, at);
      EXPECT_GE(1 - work.hit_rate(), misses - 1e-9);
      EXPECT_LE(1 - work.hit_rate(), 1 + 1e-9);
      EXPECT_GE(work.read_tokens, read - 1e-6);
      EXPECT_LE(work.read_tokens,
                last.read_tokens * at / last.context_tokens + 1e-6);
      EXPECT_LE(work.slot_tokens, at);
      misses = 1 - work.hit_rate();
      read = work.read_tokens;
    }
  }
}

// Where slots hold the context little is missed, whatever it is twice as long.
TEST(LengthFitTest, LengthsThatTheCacheHoldsSayNothingOfLongerOnes) {
  const RowWork held = Work(2048, 1000, 0.01);
  const std::vector<RowWork> recorded = {held, Work(4096, 1000, 0.10),
                                         Work(8192, 1000, 0.19)};
  EXPECT_TRUE(CacheHolds(held));
  EXPECT_FALSE(CacheHolds(recorded[1]));
  EXPECT_NEAR(WorkAtLength(recorded, 32768).hit_rate(), 0.81 * 0.81, 1e-9);
  EXPECT_NEAR(WorkAtLength(recorded, 2048).hit_rate(), 0.99, 1e-9);
  EXPECT_TRUE(CanPlace(recorded, 1 << 20));
  EXPECT_FALSE(CanPlace(std::span(recorded).first(2), 8192));
  EXPECT_TRUE(CanPlace(std::span(recorded).first(2), 4096));
  EXPECT_DEATH(WorkAtLength(std::span(recorded).first(2), 8192),
               "context_tokens=8192");
}

TEST(LengthFitTest, AnAmountThatIsMissingIsTheLasts) {
  std::vector<RowWork> recorded = {Work(4096, 0, 0), Work(8192, 500, 0.1)};
  recorded[0].missed_tokens = recorded[0].hinted_tokens = 0;
  EXPECT_EQ(WorkAtLength(recorded, 65536).wanted_tokens, 500);
}

TEST(LengthFitDeathTest, OneLengthIsNone) {
  const std::vector<RowWork> recorded = {Work(4096, 1000, 0.1)};
  EXPECT_DEATH(WorkAtLength(recorded, 8192), "lengths=1");
}

}  // namespace
}  // namespace winnow
