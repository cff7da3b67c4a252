// The parameters of one sampled token, as plain data.
#ifndef WINNOW_BACKEND_CONTRACT_SAMPLING_H_
#define WINNOW_BACKEND_CONTRACT_SAMPLING_H_

#include <cstdint>

#include "tensor/view.h"

namespace winnow {

// The largest vocabulary that a token is drawn from: what every backend bears,
// and what the loader of a checkpoint refuses to exceed.
inline constexpr int kMaxSampledVocab = 1 << 19;

// How one row's token is drawn. The order is fixed: repetition, presence and
// frequency penalties; bias; mask; temperature; min-p; top-k; top-p; draw.
// Ties go to the lowest token id. temperature 0 takes the best token and skips
// what follows. The draw uses one uniform number from (seed, draw) alone, so
// it does not depend on the batch. Log probabilities that are reported are the
// model's own: log-softmax of the logits as they came.
struct SamplingRow {
  float temperature = 1.0f;         // >= 0
  float top_p = 1.0f;               // [0, 1]; 0 keeps the best token alone
  float min_p = 0.0f;               // [0, 1]
  float repetition_penalty = 1.0f;  // > 0 (CTRL, arXiv 1909.05858)
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t top_k = 0;  // <= 0: all
  int32_t num_top_logprobs = 0;
  uint64_t seed = 0;
  uint64_t draw = 0;  // index of this token among the request's draws
};

// A token that has occurred, for penalties.
struct SeenToken {
  int32_t token_id = 0;
  int32_t num_generated = 0;  // times in the generated text; 0: prompt only
};

struct TokenBias {
  int32_t token_id = 0;
  float bias = 0;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_SAMPLING_H_
