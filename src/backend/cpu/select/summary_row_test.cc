#include "backend/cpu/select/summary_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/isa/vector_attend.h"

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

// Rows of scales near both ends of what vectors do and beyond. Of 256 numbers:
// every one that there is.
class Float8RowsTest : public testing::TestWithParam<int> {
 protected:
  Float8RowsTest() {
    for (const float scale : kScales) {
      std::byte* row = kept_.data() + num_rows_++ * kRowBytes;
      for (int c = 0; c < width_; ++c) {
        const int bits = c * (width_ == 256 ? 1 : 11) % 256;
        row[c] = std::byte(bits % 128 == 127 ? 0 : bits);  // no NaN
      }
      std::memcpy(row + Float8ScaleAt(width_), &scale, sizeof(scale));
      ReadSummaryRow({.dtype = Dtype::kFloat8E4M3}, row, numbers_);
      wanted_.insert(wanted_.end(), numbers_.begin(), numbers_.end());
    }
  }

  Float8Rows Rows() const {
    return {.first = kept_.data(),
            .row_bytes = kRowBytes,
            .scale_at = Float8ScaleAt(width_),
            .count = num_rows_,
            .width = width_};
  }

  static constexpr float kScales[] = {0x1p-118f, 0x1p-117f, 0x1p-9f, 1,
                                      0x1p60f,   0x1p119f,  0x1p120f};
  static constexpr int64_t kRowBytes = 272;
  const int width_ = GetParam();
  int num_rows_ = 0;
  std::vector<std::byte> kept_{std::size(kScales) * kRowBytes};
  std::vector<float> numbers_ = std::vector<float>(static_cast<size_t>(width_));
  std::vector<float> wanted_;  // of all rows
};

TEST_P(Float8RowsTest, KernelsReadWhatIsKept) {
  for (const CpuKernels set : AvailableCpuKernels()) {
    if (set == CpuKernels::kScalar) continue;
    SCOPED_TRACE(CpuKernelsName(set));
    const VectorKernels kernels = VectorKernelsOf(set);
    ASSERT_EQ(kernels.pair_float8 != nullptr,
              kernels.score_bfloat16 != nullptr);
    ASSERT_EQ(kernels.score_widened_bfloat16 != nullptr,
              kernels.score_bfloat16 != nullptr);
    ASSERT_EQ(kernels.widen_float8 == nullptr, kernels.pair_float8 != nullptr);
    if (kernels.pair_float8 == nullptr) {
      std::vector<float> wide(wanted_.size());
      kernels.widen_float8(Rows(), wide.data());
      EXPECT_EQ(wide, wanted_);
      continue;
    }
    std::vector<BFloat16> halves(wanted_.size());
    kernels.pair_float8(Rows(), halves.data());
    for (size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(static_cast<float>(halves[i]), wanted_[i]) << i;
    }
  }
}

// Zeros, too, are no numbers where the scale is none.
TEST_P(Float8RowsTest, WhatIsNoNumberStaysNone) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(kept_.data() + Float8ScaleAt(width_), &kNaN, sizeof(kNaN));
  Float8Rows rows = Rows();
  rows.count = 1;
  for (const CpuKernels set : AvailableCpuKernels()) {
    if (set == CpuKernels::kScalar) continue;
    SCOPED_TRACE(CpuKernelsName(set));
    const VectorKernels kernels = VectorKernelsOf(set);
    if (kernels.pair_float8 == nullptr) {
      std::vector<float> wide(static_cast<size_t>(width_));
      kernels.widen_float8(rows, wide.data());
      for (const float x : wide) ASSERT_TRUE(std::isnan(x));
      continue;
    }
    std::vector<BFloat16> halves(static_cast<size_t>(width_));
    kernels.pair_float8(rows, halves.data());
    for (const BFloat16 x : halves) {
      ASSERT_TRUE(std::isnan(static_cast<float>(x)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, Float8RowsTest,
                         testing::Values(16, 48, 96, 112, 256));

}  // namespace
}  // namespace winnow
