#include "backend/conformance/sampling_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/conformance/float_extremes.h"

namespace winnow {
namespace {

// In float32, as the rules say: ties are made by its rounding.
std::vector<float> Scores(const OracleCase& asked) {
  std::vector<float> scores = asked.logits;
  for (const SeenToken& token : asked.seen) {
    float& score = scores[static_cast<size_t>(token.token_id)];
    const float penalty = asked.row.repetition_penalty;
    score = score > 0 ? score / penalty : score * penalty;
    if (token.num_generated == 0) continue;
    score = score - asked.row.frequency_penalty *
                        static_cast<float>(token.num_generated);
    score = score - asked.row.presence_penalty;
  }
  for (const TokenBias& token : asked.bias) {
    scores[static_cast<size_t>(token.token_id)] += token.bias;
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) scores[i] = -kInfinity;
    if (!asked.allowed.empty() && !asked.allowed[i]) scores[i] = -kInfinity;
  }
  return scores;
}

// How many of the sorted tokens stay, with thresholds moved by `slack`.
size_t NumKept(const SamplingRow& row, const std::vector<double>& sorted,
               double slack) {
  const double lowest = std::min(1.0, row.min_p * (1 - slack));
  size_t kept = 0;
  while (kept < sorted.size() && sorted[kept] >= lowest) ++kept;
  if (row.top_k > 0) kept = std::min(kept, static_cast<size_t>(row.top_k));
  if (row.top_p >= 1) return kept;
  double total = 0;
  for (size_t i = 0; i < kept; ++i) total += sorted[i];
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += sorted[i];
    if (sum >= row.top_p * (1 + slack) * total) return i + 1;
  }
  return kept;
}

}  // namespace

std::vector<double> OracleAnswer::Probabilities(size_t num_kept) const {
  std::vector<double> probabilities(weights.size(), 0);
  double total = 0;
  for (size_t i = 0; i < num_kept; ++i) {
    total += weights[static_cast<size_t>(order[i])];
  }
  for (size_t i = 0; i < num_kept; ++i) {
    const auto id = static_cast<size_t>(order[i]);
    probabilities[id] = weights[id] / total;
  }
  return probabilities;
}

OracleAnswer AskOracle(const OracleCase& asked) {
  const std::vector<float> scores = Scores(asked);
  OracleAnswer answer;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > -kInfinity) answer.order.push_back(static_cast<int>(i));
  }
  const auto score = [&](int32_t id) {
    return static_cast<double>(scores[static_cast<size_t>(id)]);
  };
  std::stable_sort(answer.order.begin(), answer.order.end(),
                   [&](int32_t a, int32_t b) { return score(a) > score(b); });
  answer.weights.assign(scores.size(), 0);
  if (answer.order.empty()) return answer;
  const double best = score(answer.order[0]);
  std::vector<double> sorted;
  for (const int32_t id : answer.order) {
    const double weight =
        asked.row.temperature > 0
            ? std::exp((score(id) - best) / asked.row.temperature)
            : sorted.empty();
    sorted.push_back(weight);
    answer.weights[static_cast<size_t>(id)] = weight;
  }
  if (asked.row.temperature == 0) {
    answer.min_kept = answer.max_kept = 1;
    return answer;
  }
  constexpr double kSlack = 1e-5;
  answer.min_kept = NumKept(asked.row, sorted, -kSlack);
  answer.max_kept = NumKept(asked.row, sorted, kSlack);
  if (answer.min_kept > answer.max_kept) {
    std::swap(answer.min_kept, answer.max_kept);
  }
  return answer;
}

std::vector<double> OracleLogprobs(const std::vector<float>& logits) {
  double best = -kInfinity;
  for (const float logit : logits) {
    if (logit > best) best = logit;
  }
  double sum = 0;
  for (const float logit : logits) {
    if (!std::isnan(logit)) sum += std::exp(logit - best);
  }
  std::vector<double> logprobs;
  for (const float logit : logits) {
    const double known = std::isnan(logit) ? -kInfinity : logit;
    logprobs.push_back(known - best - std::log(sum));
  }
  return logprobs;
}

void ExpectDrawnAs(std::span<const double> probabilities,
                   std::span<const int> counts) {
  ASSERT_EQ(probabilities.size(), counts.size());
  const int num_draws = std::accumulate(counts.begin(), counts.end(), 0);
  double statistic = 0, rare_expected = 0;
  int rare_count = 0, num_cells = 0;
  const auto add_cell = [&](double expected, int count) {
    statistic += (count - expected) * (count - expected) / expected;
    ++num_cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * num_draws;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was not kept";
    } else if (expected < 5) {
      rare_expected += expected;
      rare_count += counts[i];
    } else {
      add_cell(expected, counts[i]);
    }
  }
  if (rare_expected > 0) add_cell(rare_expected, rare_count);
  ASSERT_GE(num_cells, 2);
  const double degrees = num_cells - 1;
  const double third = 2 / (9 * degrees);
  const double quantile =
      degrees * std::pow(1 - third + 3.09 * std::sqrt(third), 3);
  EXPECT_LT(statistic, quantile) << "degrees of freedom " << degrees;
}

}  // namespace winnow
