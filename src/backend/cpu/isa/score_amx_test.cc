// Scores by tiles against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/isa/vector_attend.h"
#include "tensor/dtype.h"

namespace winnow {
namespace {

constexpr int kWords = kUnitRows;  // of all rows, side by side

// Random keys [128, k_dim], halves of pages anywhere, and queries.
class TileCase {
 public:
  TileCase(int k_dim, int end, std::mt19937& random)
      : memory_((kTileHalves + 1) * HalfSize(k_dim)), q_(kUnitRows * k_dim) {
    std::normal_distribution<float> normal;
    for (BFloat16& x : memory_) x = BFloat16(normal(random));
    for (BFloat16& x : q_) x = BFloat16(normal(random));
    keys_.k_dim = keys_.k_stride = k_dim;
    keys_.end = end;
    for (int half = 0; half < kTileHalves; ++half) {
      const size_t at =
          (half * 5 + 3) % kTileHalves * HalfSize(k_dim) + random() % 2 * 16;
      keys_.k[half] = reinterpret_cast<const std::byte*>(&memory_[at]);
    }
    // Of what is fetched nothing is seen.
    if (random() % 2 == 0) keys_.ahead = {keys_.k, keys_.k};
  }

  // What the kernel makes of rows [first, first + num_rows):
  // [num_rows, 128].
  std::vector<float> Scores(ScoreKernel kernel, int first, int num_rows) const {
    const int k_dim = keys_.k_dim;
    std::vector<BFloat16> q(k_dim * kWords);
    for (int row = 0; row < num_rows; ++row) {
      for (int c = 0; c < k_dim; ++c) {
        q[(c / 2 * kWords + row) * 2 + c % 2] = Query(first + row)[c];
      }
    }
    std::vector<float> scores(num_rows * kTileKeys);
    std::vector<float> scratch(k_dim / 2 * kTilePageTokens);
    kernel(keys_, 0, kTilePages,
           {.num_rows = num_rows,
            .tiled_q = q.data(),
            .scores = scores.data(),
            .transposed_k = scratch.data()});
    return scores;
  }

  const BFloat16* Query(int row) const { return &q_[row * keys_.k_dim]; }
  const BFloat16* Key(int key) const {
    return reinterpret_cast<const BFloat16*>(keys_.k[key / kHalfTokens]) +
           key % kHalfTokens * keys_.k_dim;
  }

 private:
  static size_t HalfSize(int k_dim) {
    return static_cast<size_t>(k_dim) * kHalfTokens;
  }

  TileKeys keys_;
  std::vector<BFloat16> memory_;
  std::vector<BFloat16> q_;  // [16, k_dim]
};

class ScoreAmxTest : public testing::Test {
 protected:
  void SetUp() override {
    kernel_ = VectorKernelsOf(AvailableCpuKernels().back()).score_tile_bfloat16;
    if (kernel_ == nullptr) GTEST_SKIP() << "no AMX";
  }

  ScoreKernel kernel_ = nullptr;
  std::mt19937 random_{1};
};

TEST_F(ScoreAmxTest, AreThoseOfFloat64) {
  for (int round = 0; round < 200; ++round) {
    const int k_dim = 32 * static_cast<int>(1 + random_() % 16);
    const int end = static_cast<int>(1 + random_() % kTileKeys);
    const int num_rows = 1 + round % kUnitRows;
    const TileCase tile(k_dim, end, random_);
    const std::vector<float> scores = tile.Scores(kernel_, 0, num_rows);
    for (int row = 0; row < num_rows; ++row) {
      for (int key = 0; key < end; ++key) {
        double sum = 0, size = 0;
        for (int c = 0; c < k_dim; ++c) {
          const double product = double{static_cast<float>(tile.Key(key)[c])} *
                                 static_cast<float>(tile.Query(row)[c]);
          sum += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(scores[row * kTileKeys + key], sum, 1e-6 * size)
            << "k_dim=" << k_dim << " end=" << end << " rows=" << num_rows
            << " row=" << row << " key=" << key;
      }
    }
  }
}

TEST_F(ScoreAmxTest, DoNotDependOnTheOtherRows) {
  for (const int k_dim : {32, 64, 96, 128, 256, 512}) {
    const int end = static_cast<int>(1 + random_() % kTileKeys);
    const TileCase tile(k_dim, end, random_);
    const std::vector<float> all = tile.Scores(kernel_, 0, kUnitRows);
    for (int num_rows = 1; num_rows < kUnitRows; ++num_rows) {
      const int first = kUnitRows - num_rows;
      const std::vector<float> some = tile.Scores(kernel_, first, num_rows);
      for (int row = 0; row < num_rows; ++row) {
        for (int key = 0; key < end; ++key) {
          ASSERT_EQ(some[row * kTileKeys + key],
                    all[(first + row) * kTileKeys + key])
              << "k_dim=" << k_dim << " rows=" << num_rows << " row=" << row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace winnow
