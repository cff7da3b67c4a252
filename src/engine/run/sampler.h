// Draws the next tokens of a step: tables in, Sample, tokens out.
#ifndef WINNOW_ENGINE_RUN_SAMPLER_H_
#define WINNOW_ENGINE_RUN_SAMPLER_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/request/sequence.h"
#include "engine/run/sample_outputs.h"
#include "engine/run/step_tables.h"

namespace winnow {

// What a step drew for one sequence: the token id -1 where it has none left.
struct DrawnToken {
  SequenceId sequence;
  GeneratedToken token;
  std::optional<Error> error = {};  // why there is none
};

// Owns logits and what Sample writes, on the device and on the host. Used by
// one Runner. Per step: fill logits(n), Launch, wait for the queue, Collect;
// the next Launch comes after that.
class Sampler {
 public:
  // REQUIRES: backend outlives the sampler.
  static Result<std::unique_ptr<Sampler>> Create(Backend& backend,
                                                 int vocab_size,
                                                 int max_requests);
  // Bytes that Launch puts into the step's tables at most.
  static size_t MaxTableBytes(int max_requests, int max_seen_tokens,
                              int vocab_size);

  View logits(int num_rows) const;  // f32 [num_rows, vocab]

  // Ids that the last Launch drew for rows [first, first + num_rows), on the
  // device: i32 [num_rows], -1 where no token was left.
  View drawn(int first, int num_rows) const {
    return outputs_.OnDevice(first, num_rows).token_ids;
  }

  // Draws for sequences[i] from row i of the logits; null: it has ended, and
  // nobody wants its token. What may be drawn is asked here, where a device is
  // busy with the step.
  void Launch(Queue& queue, StepTables& tables,
              std::span<const Sequence* const> sequences);
  // What the last Launch drew, but for those that had ended, some of which may
  // have ended since. REQUIRES: what it enqueued has run.
  void Collect(std::vector<DrawnToken>* drawn) const;

 private:
  Sampler(Backend& backend, int vocab_size, SampleOutputs outputs);
  // u32 [sequences, ceil(vocab / 32)]; empty where all may draw everything.
  View PutMasks(StepTables& tables, std::span<const Sequence* const> sequences);

  Backend& backend_;
  const int vocab_size_;
  Buffer logits_;
  SampleOutputs outputs_;
  struct Row {
    std::optional<SequenceId> sequence = {};  // none: it had ended
    int num_top = 0;
    std::optional<Error> error = {};  // where its mask leaves no token
  };
  std::vector<Row> rows_;  // of the last Launch
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_SAMPLER_H_
