// One row through SampleRow, for tests: a case in, what was drawn out.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_DRAWN_ROW_H_
#define WINNOW_BACKEND_CPU_SAMPLE_DRAWN_ROW_H_

#include <cstdint>
#include <vector>

#include "backend/conformance/sampling_oracle.h"

namespace winnow {

struct Drawn {
  int32_t token_id;
  float logprob;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
};

// Draws for the case, with room for `max_top` top logprobs.
Drawn Draw(const OracleCase& asked, size_t max_top = 0);

// A case without lists and mask.
OracleCase Row(std::vector<float> logits,  // f32 [vocab]
               SamplingRow row = {});
// Forty tokens, two of them equal.
OracleCase DistributionCase();

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_DRAWN_ROW_H_
