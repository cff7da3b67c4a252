#include "backend/cpu/summary_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/vector_read.h"

namespace winnow {
namespace {

// Numbers of one sign or both, near one another or far apart, of any size.
std::vector<float> RandomNumbers(std::mt19937& random, int width) {
  std::uniform_int_distribution<int> exponents(-60, 60);
  std::normal_distribution<float> normal;
  const int size = exponents(random), spread = exponents(random) / 4;
  std::vector<float> numbers;
  for (int i = 0; i < width; ++i) {
    const float far = std::exp2(static_cast<float>(spread) * normal(random));
    numbers.push_back(std::ldexp(normal(random) * far, size));
  }
  if (size % 3 == 0) std::ranges::fill(numbers, numbers[0]);
  if (size % 5 == 0) numbers.back() = 0;
  return numbers;
}

std::vector<float> Kept(const std::vector<float>& numbers, bool bounds) {
  const auto width = static_cast<int>(numbers.size());
  std::vector<std::byte> row(static_cast<size_t>(Float8RowBytes(width)));
  WriteFloat8Row(numbers, bounds, row.data());
  std::vector<float> kept(numbers.size());
  ReadSummaryRow({.dtype = Dtype::kFloat8E4M3}, row.data(), kept);
  return kept;
}

// How far apart numbers of E4M3 lie at `x`, where a row's greatest is `most`.
float StepAt(float x, float most) {
  const float scale = std::exp2(std::ceil(std::log2(most / 448)));
  return std::max(std::abs(x) / 8, scale * 0x1p-9f);
}

// A bound that is kept is still one, and no further off than E4M3 is coarse.
TEST(SummaryRowTest, Float8BoundsStayBounds) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int width = 2 * (1 + round % 40);
    const std::vector<float> numbers = RandomNumbers(random, width);
    float most = 0;
    for (const float x : numbers) most = std::max(most, std::abs(x));
    const std::vector<float> kept = Kept(numbers, true);
    for (size_t c = 0; c < numbers.size(); ++c) {
      const bool least = c < numbers.size() / 2;
      const float inside = least ? numbers[c] - kept[c] : kept[c] - numbers[c];
      ASSERT_GE(inside, 0) << numbers[c] << " is kept as " << kept[c];
      ASSERT_LE(inside, StepAt(numbers[c], most)) << numbers[c];
    }
  }
}

TEST(SummaryRowTest, OthersAreRoundedToTheNearest) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<float> numbers = RandomNumbers(random, 1 + round % 40);
    float most = 0;
    for (const float x : numbers) most = std::max(most, std::abs(x));
    const std::vector<float> kept = Kept(numbers, false);
    for (size_t c = 0; c < numbers.size(); ++c) {
      ASSERT_LE(std::abs(kept[c] - numbers[c]), StepAt(numbers[c], most) / 2);
    }
  }
}

// The greatest is as near the top of E4M3 as a power of two brings it.
TEST(SummaryRowTest, TheScaleIsTheLeastThatHoldsAll) {
  EXPECT_EQ(Kept({448, 1.0625f}, false), (std::vector<float>{448, 1}));
  EXPECT_EQ(Kept({449, 1.0625f}, true), (std::vector<float>{448, 1.125f}));
  EXPECT_EQ(Kept({-449, -3, 0, 0}, true), (std::vector<float>{-480, -3, 0, 0}));
  EXPECT_EQ(Kept({0, 0}, true), (std::vector<float>{0, 0}));
}

// What is no number makes the whole row none: it must never be chosen.
TEST(SummaryRowTest, WhatIsNoNumberSpoilsTheRow) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    for (const float x : Kept({1, 2, bad, 3}, true)) {
      EXPECT_TRUE(std::isnan(x));
    }
  }
}

// Every number that there is, at scales from the least on.
TEST(SummaryRowTest, KernelsReadWhatIsKept) {
  constexpr int kWidth = 256;
  for (const CpuKernels set : AvailableCpuKernels()) {
    if (set == CpuKernels::kScalar) continue;
    const ReadKernels kernels = ReadKernelsOf(set);
    for (const float scale : {0x1p-100f, 0x1p-9f, 1.0f, 0x1p60f}) {
      std::vector<uint8_t> row(Float8RowBytes(kWidth));
      for (size_t c = 0; c < kWidth; ++c) row[c] = static_cast<uint8_t>(c);
      row[0x7f] = row[0xff] = 0;  // NaN
      std::memcpy(&row[kWidth], &scale, sizeof(scale));
      std::vector<float> kept(kWidth), wide(kWidth);
      ReadSummaryRow({.dtype = Dtype::kFloat8E4M3},
                     reinterpret_cast<const std::byte*>(row.data()), kept);
      kernels.widen_float8(row.data(), kWidth, scale, wide.data());
      EXPECT_EQ(wide, kept) << CpuKernelsName(set);
      ASSERT_EQ(kernels.pair_float8 == nullptr,
                kernels.score_bfloat16 == nullptr);
      if (kernels.pair_float8 == nullptr) continue;
      std::vector<BFloat16> halves(kWidth);
      kernels.pair_float8(row.data(), kWidth, scale, halves.data());
      for (size_t c = 0; c < kWidth; ++c) {
        ASSERT_EQ(static_cast<float>(halves[c]), kept[c]) << c;
      }
    }
  }
}

}  // namespace
}  // namespace winnow
