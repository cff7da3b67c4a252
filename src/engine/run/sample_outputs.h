// SampleOutputs: what Sample writes for the rows of a step, on the device and
// on the host.
#ifndef WINNOW_ENGINE_RUN_SAMPLE_OUTPUTS_H_
#define WINNOW_ENGINE_RUN_SAMPLE_OUTPUTS_H_

#include <string>

#include "backend/backend.h"
#include "engine/request/request.h"

namespace winnow {

// Owns both. Per step: Sample writes views on the device, CopyToHost, wait for
// the queue, Token.
class SampleOutputs {
 public:
  struct Views {
    View token_ids;     // i32 [rows]
    View logprobs;      // f32 [rows]
    View top_ids;       // i32 [rows, kMaxTopLogprobs]
    View top_logprobs;  // f32 [rows, kMaxTopLogprobs]
  };

  // `purpose` names the memory. REQUIRES: backend outlives this.
  static Result<SampleOutputs> Create(Backend& backend, int max_rows,
                                      const std::string& purpose);

  // Of rows [first, first + num_rows).
  Views OnDevice(int first, int num_rows) const {
    return In(device_, first, num_rows);
  }
  void CopyToHost(Queue& queue) const;
  // Of a row, with `num_top` alternatives; fewer where fewer tokens have a
  // probability. REQUIRES: the copy has run.
  GeneratedToken Token(int row, int num_top) const;

 private:
  SampleOutputs(Backend& backend, int max_rows)
      : backend_(&backend), max_rows_(max_rows) {}
  Views In(const Buffer& buffer, int first, int num_rows) const;

  Backend* backend_;
  int max_rows_;
  Buffer device_;
  Buffer host_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_SAMPLE_OUTPUTS_H_
