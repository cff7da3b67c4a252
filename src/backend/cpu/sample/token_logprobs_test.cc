#include "backend/cpu/sample/token_logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "backend/conformance/float_extremes.h"

namespace winnow {
namespace {

std::vector<double> LogSoftmaxInDouble(const std::vector<float>& logits) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - best);
  std::vector<double> logprobs;
  for (const float logit : logits) {
    logprobs.push_back(logit - best - std::log(sum));
  }
  return logprobs;
}

LogSoftmax SoftmaxOf(const std::vector<float>& logits) {
  return MakeLogSoftmax(logits,
                        *std::max_element(logits.begin(), logits.end()));
}

// The bound is two roundings to float32 of values up to the size of the
// answer, and 1e-6 for the sum.
void ExpectAsInDouble(const std::vector<float>& logits) {
  const LogSoftmax softmax = SoftmaxOf(logits);
  const std::vector<double> exact = LogSoftmaxInDouble(logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isinf(exact[i])) {
      ASSERT_EQ(softmax.Logprob(logits[i]), -kInfinity);
      continue;
    }
    ASSERT_NEAR(softmax.Logprob(logits[i]), exact[i],
                1e-6 + 1.2e-7 * std::abs(exact[i]))
        << "i=" << i << " of " << logits.size();
  }
}

TEST(TokenLogprobsTest, AreThoseInDouble) {
  std::mt19937 random(11);
  for (const float centre : {50.0f, 0.0f, -300.0f}) {
    for (const float spread : {0.0f, 0.01f, 1.0f, 10.0f, 1000.0f}) {
      for (const size_t size : {1u, 2u, 300u, 40000u}) {
        std::normal_distribution<float> normal(centre, spread);
        std::vector<float> logits(size);
        for (float& logit : logits)
          logit = spread > 0 ? normal(random) : centre;
        if (size > 2) logits[1] = -kInfinity;
        ExpectAsInDouble(logits);
      }
    }
  }
  ExpectAsInDouble({1e30f, 1e30f, -1e30f, 0.0f});
}

TEST(TokenLogprobsTest, TopIsTheBeginningOfTheSortedRow) {
  std::mt19937 random(12);
  for (const int num_values : {1, 3, 50, 100000}) {
    for (const size_t size : {1u, 5u, 255u, 256u, 257u, 2000u}) {
      std::vector<float> logits(size);
      for (float& logit : logits) {
        logit = static_cast<float>(random() % num_values) / 256.0f;
      }
      std::vector<int32_t> order(size);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
      });
      const LogSoftmax softmax = SoftmaxOf(logits);
      std::vector<int32_t> ids(20, 7);
      std::vector<float> logprobs(20, 7);
      FindTopLogprobs(logits, softmax, ids, logprobs);
      for (size_t i = 0; i < 20; ++i) {
        if (i >= size) {
          ASSERT_EQ(ids[i], -1);
          ASSERT_EQ(logprobs[i], -kInfinity);
          continue;
        }
        ASSERT_EQ(ids[i], order[i]) << "i=" << i << " of " << size;
        const auto id = static_cast<size_t>(ids[i]);
        ASSERT_EQ(logprobs[i], softmax.Logprob(logits[id]));
      }
    }
  }
}

TEST(TokenLogprobsTest, TopLeavesOutTokensOfNoProbability) {
  const std::vector<float> logits = {-kInfinity, 1.0f, -kInfinity, 2.0f};
  std::vector<int32_t> ids(3);
  std::vector<float> logprobs(3);
  FindTopLogprobs(logits, SoftmaxOf(logits), ids, logprobs);
  EXPECT_EQ(ids, (std::vector<int32_t>{3, 1, -1}));
  EXPECT_EQ(logprobs[2], -kInfinity);
}

}  // namespace
}  // namespace winnow
