// Scores of rows of float8_e4m3 as they are stored: against float64, and
// against those of the same rows as bfloat16.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/isa/vector_attend.h"
#include "tensor/dtype.h"

namespace winnow {
namespace {

// 128 random rows, halves of them anywhere, and queries.
class Float8Case {
 public:
  Float8Case(int width, std::mt19937& random)
      : width_(width),
        row_bytes_(width + 4),
        rows_(static_cast<size_t>(kTileKeys * row_bytes_)),
        q_(static_cast<size_t>(kUnitRows * width)) {
    std::normal_distribution<float> normal;
    for (BFloat16& x : q_) x = BFloat16(normal(random));
    for (int key = 0; key < kTileKeys; ++key) {
      for (int c = 0; c < width; ++c) {
        const auto bits = static_cast<uint8_t>(random());
        Row(key)[c] = std::byte((bits & 0x7f) == 0x7f ? 0 : bits);  // no NaN
      }
      SetScale(key, std::exp2(static_cast<float>(random() % 41) - 20));
    }
    keys_.k_dim = width;
    keys_.k_stride = row_bytes_;
    keys_.end = kTileKeys;
    // What is fetched: the tile again, and before it what it begins with.
    ahead_.assign(kFarAgain + kTileHalves, Row(HalfAt(0)));
    for (int half = 0; half < kTileHalves; ++half) {
      keys_.k[half] = ahead_[static_cast<size_t>(kFarAgain + half)] =
          Row(HalfAt(half));
    }
    if (random() % 2 == 0) {
      keys_.ahead = {ahead_.data() + kFarAgain, ahead_.data() + kFarAgain};
    }
  }

  void SetScale(int key, float scale) {
    std::memcpy(Row(key) + width_, &scale, sizeof(scale));
  }

  // Of rows [0, num_rows): [num_rows, 128].
  std::vector<float> Scores(ScoreKernel kernel, int num_rows) const {
    return Scores(kernel, keys_, num_rows);
  }
  // Of the rows as `pair` makes them bfloat16.
  std::vector<float> ScoresOfPairs(const VectorKernels& kernels,
                                   int num_rows) const {
    std::vector<BFloat16> wide(static_cast<size_t>(kTileKeys * width_));
    kernels.pair_float8({.first = rows_.data(),
                         .row_bytes = row_bytes_,
                         .scale_at = width_,
                         .count = kTileKeys,
                         .width = width_},
                        wide.data());
    TileKeys keys = keys_;
    keys.k_stride = width_;
    keys.ahead = {};
    for (int half = 0; half < kTileHalves; ++half) {
      keys.k[half] = reinterpret_cast<const std::byte*>(
          &wide[static_cast<size_t>(HalfAt(half) * width_)]);
    }
    return Scores(kernels.score_bfloat16, keys, num_rows);
  }

  // The inner product of a query with a tile's key, and that of magnitudes.
  std::pair<double, double> Product(int row, int key) const {
    const std::byte* numbers =
        keys_.k[key / kHalfTokens] + key % kHalfTokens * row_bytes_;
    float scale;
    std::memcpy(&scale, numbers + width_, sizeof(scale));
    double sum = 0, size = 0;
    for (int c = 0; c < width_; ++c) {
      const Float8E4M3 number{.bits = std::to_integer<uint8_t>(numbers[c])};
      const BFloat16 q = q_[static_cast<size_t>(row * width_ + c)];
      const double product = double{static_cast<float>(number)} * scale *
                             double{static_cast<float>(q)};
      sum += product;
      size += std::abs(product);
    }
    return {sum, size};
  }

 private:
  // The row where a half of the tile begins.
  static int HalfAt(int half) {
    return (half * 5 + 3) % kTileHalves * kHalfTokens;
  }
  std::byte* Row(int key) {
    return &rows_[static_cast<size_t>(key * row_bytes_)];
  }

  std::vector<float> Scores(ScoreKernel kernel, const TileKeys& keys,
                            int num_rows) const {
    std::vector<float> scores(static_cast<size_t>(num_rows * kTileKeys));
    kernel(keys, 0, kTilePages,
           {.num_rows = num_rows, .q = q_.data(), .scores = scores.data()});
    return scores;
  }

  const int width_, row_bytes_;
  std::vector<std::byte> rows_;
  std::vector<BFloat16> q_;  // [16, width]
  std::vector<const std::byte*> ahead_;
  TileKeys keys_;
};

// Of kernels that fetch from afar into either level.
class ScoreFloat8Test : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    for (const CpuKernels set : AvailableCpuKernels()) {
      if (set == CpuKernels::kAvx512Bf16) kernels_ = VectorKernelsOf(set);
    }
    if (kernels_.score_float8 == nullptr) {
      GTEST_SKIP() << "no AVX512_BF16 with AVX512_VBMI";
    }
    score_ = Float8ScoreKernel(GetParam());
  }

  VectorKernels kernels_;
  ScoreKernel score_ = nullptr;
  std::mt19937 random_{1};
};

TEST_P(ScoreFloat8Test, AreThoseOfFloat64) {
  for (const int width : {64, 128, 192, 256, 512}) {
    for (int num_rows = 1; num_rows <= kUnitRows; ++num_rows) {
      const Float8Case tile(width, random_);
      const std::vector<float> scores = tile.Scores(score_, num_rows);
      for (int row = 0; row < num_rows; ++row) {
        for (int key = 0; key < kTileKeys; ++key) {
          const auto [sum, size] = tile.Product(row, key);
          ASSERT_NEAR(scores[static_cast<size_t>(row * kTileKeys + key)], sum,
                      1e-6 * size)
              << "width=" << width << " rows=" << num_rows << " row=" << row
              << " key=" << key;
        }
      }
    }
  }
}

TEST_P(ScoreFloat8Test, HaveTheBitsOfPairs) {
  for (const int width : {64, 128, 192, 256}) {
    for (const int num_rows : {1, 2, 3, 4, 7, 16}) {
      const Float8Case tile(width, random_);
      EXPECT_EQ(tile.Scores(score_, num_rows),
                tile.ScoresOfPairs(kernels_, num_rows))
          << "width=" << width << " rows=" << num_rows;
    }
  }
}

// A row that is none has no number for a score, and others have theirs.
TEST_P(ScoreFloat8Test, OfARowThatIsNoneAreNoNumbers) {
  Float8Case tile(128, random_);
  const std::vector<float> before = tile.Scores(score_, 4);
  tile.SetScale(3 * kHalfTokens + 5, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> after = tile.Scores(score_, 4);
  int num_changed = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    if (std::isnan(after[i])) {
      ++num_changed;
    } else {
      EXPECT_EQ(after[i], before[i]);
    }
  }
  EXPECT_EQ(num_changed, 4);
}

INSTANTIATE_TEST_SUITE_P(FarFirst, ScoreFloat8Test, testing::Bool());

}  // namespace
}  // namespace winnow
