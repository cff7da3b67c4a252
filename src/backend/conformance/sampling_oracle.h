// Sampling once more, for tests: sorts everything, adds up in double.
#ifndef WINNOW_BACKEND_CONFORMANCE_SAMPLING_ORACLE_H_
#define WINNOW_BACKEND_CONFORMANCE_SAMPLING_ORACLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backend/contract/sampling.h"

namespace winnow {

struct OracleCase {
  std::vector<float> logits;  // [vocab]
  SamplingRow row;
  std::vector<SeenToken> seen;
  std::vector<TokenBias> bias;
  std::vector<bool> allowed;  // [vocab]; empty: all
};

// Thresholds may fall between two tokens so closely that float32 and double
// disagree; then more than one number of kept tokens is right.
struct OracleAnswer {
  std::vector<int32_t> order;   // drawable tokens, best first
  std::vector<double> weights;  // [vocab], of the best 1
  size_t min_kept = 0;          // of `order`
  size_t max_kept = 0;

  // [vocab], zero where not among the first num_kept.
  std::vector<double> Probabilities(size_t num_kept) const;
};

OracleAnswer AskOracle(const OracleCase& asked);

// Expects tokens to be drawn as often as their probabilities say: Pearson's
// statistic, tokens expected less than five times put together, below the 0.999
// quantile (Wilson and Hilferty's approximation, PNAS 1931).
// REQUIRES: both are [vocab].
void ExpectDrawnAs(std::span<const double> probabilities,
                   std::span<const int> counts);

// Log-softmax of the logits as they came, NaN as -infinity. [vocab]
std::vector<double> OracleLogprobs(const std::vector<float>& logits);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_SAMPLING_ORACLE_H_
