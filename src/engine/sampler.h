// Draws the next tokens of a step: tables in, Sample, tokens out.
#ifndef WINNOW_ENGINE_SAMPLER_H_
#define WINNOW_ENGINE_SAMPLER_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/sample_outputs.h"
#include "engine/sequence.h"
#include "engine/step_tables.h"

namespace winnow {

// What a step drew for one sequence: the token id -1 where it has none left.
struct DrawnToken {
  SequenceId sequence;
  GeneratedToken token;
  std::optional<Error> error = {};  // why there is none
};

// Owns logits and what Sample writes, on the device and on the host. Used by
// one Runner. Per step: fill logits(n), Launch, wait for the queue, Collect.
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

  // Draws for sequences[i] from row i of the logits. What may be drawn is asked
  // here, where a device is busy with the step.
  void Launch(Queue& queue, StepTables& tables,
              std::span<const Sequence* const> sequences);
  // REQUIRES: what Launch enqueued has run.
  void Collect(std::span<const Sequence* const> sequences,
               std::vector<DrawnToken>* drawn) const;

 private:
  Sampler(Backend& backend, int vocab_size, SampleOutputs outputs);
  // u32 [sequences, ceil(vocab / 32)]; empty where all may draw everything.
  View PutMasks(StepTables& tables, std::span<const Sequence* const> sequences);

  Backend& backend_;
  const int vocab_size_;
  Buffer logits_;
  SampleOutputs outputs_;
  // Of the last Launch, by rows: where no token is left.
  std::vector<std::optional<Error>> mask_errors_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_SAMPLER_H_
