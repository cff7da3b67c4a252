#include "backend/conformance/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace winnow {

Attention Attend(const PagedCase& paged, size_t request, int kv_head,
                 std::span<const double> query, double scale,
                 std::span<const int64_t> tokens) {
  const TestArray& keys = paged.keys(request);
  const TestArray& values = paged.values(request);
  std::vector<double> scores;
  for (const int64_t token : tokens) {
    scores.push_back(scale * std::transform_reduce(
                                 query.begin(), query.end(),
                                 keys.numbers(token, kv_head).begin(), 0.0));
  }
  const double maximum = std::ranges::max(scores);
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - maximum);
  Attention attention;
  attention.lse = maximum + std::log(sum);
  attention.values.assign(static_cast<size_t>(paged.shape().v_dim), 0);
  attention.magnitudes = attention.values;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const double weight = scores[t] / sum;
    const std::span<const double> value = values.numbers(tokens[t], kv_head);
    for (size_t i = 0; i < value.size(); ++i) {
      const double term = weight * value[i];
      attention.values[i] += term;
      attention.magnitudes[i] += std::abs(term);
    }
  }
  return attention;
}

AttentionCloseness::AttentionCloseness(Dtype kv, const TestArray& out,
                                       const TestArray& lse)
    : out_(out, kv == Dtype::kBFloat16 ? Arithmetic::kAttentionBf16
                                       : Arithmetic::kAttention),
      lse_(lse, Arithmetic::kAttention) {}

void AttentionCloseness::Expect(int64_t row, int64_t head,
                                const Attention& expected) {
  lse_.Expect({row, head}, expected.lse, 1 + std::abs(expected.lse));
  for (size_t c = 0; c < expected.values.size(); ++c) {
    out_.Expect({row, head, static_cast<int64_t>(c)}, expected.values[c],
                expected.magnitudes[c]);
  }
}

}  // namespace winnow
