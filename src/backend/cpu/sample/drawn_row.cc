#include "backend/cpu/sample/drawn_row.h"

#include <limits>
#include <random>

#include "backend/cpu/sample/sample_row.h"

namespace winnow {

Drawn Draw(const OracleCase& asked, size_t max_top) {
  std::vector<float> logits = asked.logits;
  // What was there before must not show.
  std::vector<float> originals(logits.size(),
                               std::numeric_limits<float>::quiet_NaN());
  std::vector<uint32_t> mask;
  for (size_t i = 0; i < asked.allowed.size(); ++i) {
    if (i % 32 == 0) mask.push_back(0);
    mask.back() |= uint32_t{asked.allowed[i]} << i % 32;
  }
  Drawn drawn;
  drawn.top_ids.assign(max_top, 77);
  drawn.top_logprobs.assign(max_top, 77.0f);
  const SampledToken token =
      SampleRow({.logits = logits,
                 .row = asked.row,
                 .seen = asked.seen,
                 .bias = asked.bias,
                 .mask = mask.empty() ? nullptr : mask.data(),
                 .top_ids = drawn.top_ids,
                 .top_logprobs = drawn.top_logprobs,
                 .originals = originals});
  drawn.token_id = token.token_id;
  drawn.logprob = token.logprob;
  return drawn;
}

OracleCase Row(std::vector<float> logits, SamplingRow row) {
  OracleCase asked;
  asked.logits = std::move(logits);
  asked.row = row;
  return asked;
}

OracleCase DistributionCase() {
  OracleCase asked;
  std::mt19937 random(41);
  std::normal_distribution<float> normal(0, 1.5f);
  for (int i = 0; i < 40; ++i) asked.logits.push_back(normal(random));
  asked.logits[5] = asked.logits[30] = 2.5f;
  asked.row.seed = 1234567890123;
  return asked;
}

}  // namespace winnow
