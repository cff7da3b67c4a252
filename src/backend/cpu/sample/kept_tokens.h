// The tokens that a draw chooses from: min-p, top-k and top-p without a sort.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_KEPT_TOKENS_H_
#define WINNOW_BACKEND_CPU_SAMPLE_KEPT_TOKENS_H_

#include <cstdint>
#include <span>

#include "backend/contract/sampling.h"
#include "backend/cpu/sample/token_weight.h"

namespace winnow {

// A beginning of the tokens ordered by descending score and ascending id:
// every token above the threshold, and of those at it the first by id. All
// three filters, in any order, keep such a beginning.
struct KeptTokens {
  float threshold = 0;
  int64_t num_ties = 0;  // kept of the tokens whose score is the threshold
  uint64_t weight = 0;   // sum over the kept tokens; > 0
};

// Keeps, in this order: tokens of at least min_p times the best one's
// probability; the top_k best of them; of these the fewest best ones whose
// share of the probability is at least top_p, and one at least.
//
// How: tokens or weights are added up by the upper bits of their scores in
// 2,048 bins, then within the bin where the limit falls, until that bin is one
// score: at most four passes, in the row's place and with 16 KiB of stack.
// REQUIRES: the scores are ordered (token_scores.h), none is above scale.best,
// scale is made with row.temperature > 0; at most kMaxSampledVocab scores.
KeptTokens KeepTokens(std::span<const float> scores,  // f32 [vocab]
                      const SamplingRow& row, const WeightScale& scale);

// The kept token in whose share of the weights, laid side by side by ascending
// id, random_bits / 2^64 falls. REQUIRES: as above, and kept is theirs.
int32_t DrawToken(std::span<const float> scores,  // f32 [vocab]
                  const KeptTokens& kept, const WeightScale& scale,
                  uint64_t random_bits);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_KEPT_TOKENS_H_
