// Sample on a backend under test: rows in, what was drawn out.
#ifndef WINNOW_BACKEND_CONFORMANCE_SAMPLE_CASE_H_
#define WINNOW_BACKEND_CONFORMANCE_SAMPLE_CASE_H_

#include <vector>

#include "backend/conformance/sampling_oracle.h"
#include "backend/conformance/test_array.h"

namespace winnow {

// Numbers of poison between the rows of a step's arrays, and the room for top
// log probabilities; 0: no such outputs.
struct SampleLayout {
  int64_t gap = 0;
  int64_t max_top = 0;
};

struct SampleAnswer {
  int32_t token_id = 0;
  double logprob = 0;
  std::vector<int32_t> top_ids;      // [max_top]
  std::vector<double> top_logprobs;  // [max_top]

  bool operator==(const SampleAnswer&) const = default;
};

// A row without lists and mask.
OracleCase CaseOf(std::vector<float> logits,  // [vocab]
                  SamplingRow row = {});

// One call of Sample for all of `rows`, whose vocabulary is one. An argument
// that no row has is left out. Fails the test where a gap has been written to.
std::vector<SampleAnswer> SampleRows(TestDevice& device,
                                     const std::vector<OracleCase>& rows,
                                     const SampleLayout& layout = {});

// A row with `vocab` tokens and anything on: ties, NaN and -infinity, lists in
// any order, a mask, parameters up to their edges.
OracleCase RandomSampleCase(int64_t vocab, RandomSource& random);

// What `token` has to be for the asked row.
struct DrawVerdict {
  bool is_right = false;
  // Another token, or another number of kept ones, would be as right: what
  // decides lies within a hundred-thousandth.
  bool is_close = false;
};
DrawVerdict JudgeDraw(const OracleCase& asked, const OracleAnswer& answer,
                      int32_t token_id);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_SAMPLE_CASE_H_
