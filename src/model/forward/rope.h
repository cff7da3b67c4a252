// The angles of rotary position embedding, by checkpoint and length.
#ifndef WINNOW_MODEL_FORWARD_ROPE_H_
#define WINNOW_MODEL_FORWARD_ROPE_H_

#include <span>

#include "model/config/rope_config.h"

namespace winnow {

// The inverse frequencies of a request, and what its cosines and sines are
// multiplied by. `dynamic` and `longrope` depend on the length of a sequence,
// and keys are cached after rotation: frequencies that changed within a
// request would mix keys of two kinds. So one rule holds for a request's whole
// life: `planned_tokens` is the length of its prompt plus the most tokens that
// it may generate. For a whole prompt at once this is what transformers does.
//
// Each number is rounded to float32 where transformers rounds; only the last
// bit of a power may differ, because pow is computed in double here.
// REQUIRES: planned_tokens >= 0; inverse_frequencies.size() == rotary_dim / 2.
void RopeFrequencies(const RopeConfig& rope, int64_t planned_tokens,
                     std::span<float> inverse_frequencies, float* scale);

}  // namespace winnow

#endif  // WINNOW_MODEL_FORWARD_ROPE_H_
