#include "backend/cpu/sample/token_logprobs.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/sample/token_scores.h"
#include "backend/cpu/sample/token_weight.h"
#include "base/check.h"

namespace winnow {

LogSoftmax MakeLogSoftmax(std::span<const float> logits, float best) {
  const WeightScale scale = MakeWeightScale(best, /*temperature=*/1.0f);
  const uint64_t sum = SumWeights(logits, kLowestScore, scale);
  return {best, std::log(std::ldexp(static_cast<double>(sum), -kWeightBits))};
}

void FindTopLogprobs(std::span<const float> logits, const LogSoftmax& softmax,
                     std::span<int32_t> ids, std::span<float> logprobs) {
  CHECK(ids.size() == logprobs.size(), "ids={} logprobs={}", ids.size(),
        logprobs.size());
  std::fill(ids.begin(), ids.end(), -1);
  std::fill(logprobs.begin(), logprobs.end(), kExcludedScore);
  if (ids.empty()) return;
  // An insertion sort that rejects most blocks at a glance. `logprobs` holds
  // logits until all tokens have been seen.
  const size_t last = ids.size() - 1;
  for (size_t first = 0; first < logits.size(); first += kTokensPerBlock) {
    const auto block =
        logits.subspan(first, std::min(kTokensPerBlock, logits.size() - first));
    if (!(BestScore(block) > logprobs[last])) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (!(block[i] > logprobs[last])) continue;
      size_t place = last;
      for (; place > 0 && block[i] > logprobs[place - 1]; --place) {
        ids[place] = ids[place - 1];
        logprobs[place] = logprobs[place - 1];
      }
      ids[place] = static_cast<int32_t>(first + i);
      logprobs[place] = block[i];
    }
  }
  for (float& logprob : logprobs) logprob = softmax.Logprob(logprob);
}

}  // namespace winnow
