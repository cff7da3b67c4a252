// PromptScorer: how probable the model holds the tokens of a prompt to be.
#ifndef WINNOW_ENGINE_RUN_PROMPT_SCORER_H_
#define WINNOW_ENGINE_RUN_PROMPT_SCORER_H_

#include <memory>
#include <span>

#include "engine/run/sample_outputs.h"
#include "engine/run/step_tables.h"
#include "model/forward/transformer.h"

namespace winnow {

// A row whose distribution is asked about the token that comes next.
struct ScoredRow {
  int row = 0;  // of the step
  int32_t next_token = 0;
  int num_top = 0;  // alternatives to be told
};

struct PromptScorerOptions {
  int max_rows = 0;      // scored in a step
  int max_run_rows = 0;  // whose logits are there at once; at least 1
};

// Owns the logits of a run of rows, and what is told of all rows of a step: so
// memory is bounded whatever a prompt's length. The rows are those that the
// step computes anyway; nothing is computed twice. Used by one Runner: Launch
// behind a Forward to the last layer, wait for the queue, Score.
class PromptScorer {
 public:
  // REQUIRES: backend and model outlive the scorer.
  static Result<std::unique_ptr<PromptScorer>> Create(
      Backend& backend, const Model& model, const PromptScorerOptions& options);
  // Bytes that Launch puts into the step's tables at most.
  static size_t MaxTableBytes(int max_rows);

  // REQUIRES: at least one row; activations for max_run_rows rows with logits;
  // `args` are those of the Forward.
  void Launch(Queue& queue, StepTables& tables, const ForwardArgs& args,
              const Activations& activations, std::span<const ScoredRow> rows);
  // The token that came next behind rows[index] of the last Launch, with its
  // log probability and the row's best. REQUIRES: what it enqueued has run.
  GeneratedToken Score(const ScoredRow& row, size_t index) const;

 private:
  PromptScorer(Backend& backend, const Model& model,
               const PromptScorerOptions& options, SampleOutputs outputs)
      : backend_(backend),
        model_(model),
        options_(options),
        outputs_(std::move(outputs)) {}

  Backend& backend_;
  const Model& model_;
  const PromptScorerOptions options_;
  Buffer logits_;  // f32 [max_run_rows, vocab]
  SampleOutputs outputs_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_PROMPT_SCORER_H_
