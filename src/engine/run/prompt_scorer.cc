#include "engine/run/prompt_scorer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace winnow {
namespace {

// Whatever the others have, this one is the best: so Sample draws it, and says
// what it says of every token that it draws, the model's own log probability.
constexpr float kCertain = std::numeric_limits<float>::max();

}  // namespace

Result<std::unique_ptr<PromptScorer>> PromptScorer::Create(
    Backend& backend, const Model& model, const PromptScorerOptions& options) {
  CHECK(options.max_rows > 0 && options.max_run_rows > 0,
        "max_rows={} max_run_rows={}", options.max_rows, options.max_run_rows);
  ASSIGN_OR_RETURN(
      SampleOutputs outputs,
      SampleOutputs::Create(backend, options.max_rows, "scored tokens"));
  std::unique_ptr<PromptScorer> scorer(
      new PromptScorer(backend, model, options, std::move(outputs)));
  const size_t logits_bytes = static_cast<size_t>(options.max_run_rows) *
                              static_cast<size_t>(model.config().vocab_size) *
                              sizeof(float);
  ASSIGN_OR_RETURN(
      scorer->logits_,
      backend.Allocate(Tier::kDevice, logits_bytes, "logits of prompts"));
  return scorer;
}

size_t PromptScorer::MaxTableBytes(int max_rows) {
  constexpr size_t kAlignmentSlack = 1024;
  return static_cast<size_t>(max_rows) *
             (sizeof(SamplingRow) + sizeof(TokenBias) + 2 * sizeof(int32_t)) +
         kAlignmentSlack;
}

void PromptScorer::Launch(Queue& queue, StepTables& tables,
                          const ForwardArgs& args,
                          const Activations& activations,
                          std::span<const ScoredRow> rows) {
  CHECK(!rows.empty() && std::ssize(rows) <= options_.max_rows,
        "rows={} max_rows={}", rows.size(), options_.max_rows);
  std::vector<int32_t> indices, bias_begin(rows.size() + 1);
  std::vector<SamplingRow> drawn;
  std::vector<TokenBias> bias;
  std::iota(bias_begin.begin(), bias_begin.end(), 0);
  for (const ScoredRow& row : rows) {
    indices.push_back(row.row);
    drawn.push_back({.temperature = 0, .num_top_logprobs = row.num_top});
    bias.push_back({row.next_token, kCertain});
  }
  const auto num_rows = static_cast<int>(rows.size());
  const View all = tables.Put(std::span<const int32_t>(indices), {num_rows});
  const View begins =
      tables.Put(std::span<const int32_t>(bias_begin), {num_rows + 1});
  const auto* device_rows =
      tables.PutStructs(std::span<const SamplingRow>(drawn));
  const auto* device_bias = tables.PutStructs(std::span<const TokenBias>(bias));
  tables.Flush(queue);
  for (int first = 0; first < num_rows; first += options_.max_run_rows) {
    const int num = std::min(options_.max_run_rows, num_rows - first);
    const View logits =
        logits_.At(0, Dtype::kFloat32, {num, model_.config().vocab_size});
    EnqueueLogits(backend_, queue, model_,
                  {.hidden = args.hidden,
                   .rows = all.Slice(first, num),
                   .logits = logits,
                   .batch_invariant = args.batch_invariant},
                  activations);
    const SampleOutputs::Views out = outputs_.OnDevice(first, num);
    backend_.Sample(queue, {.logits = logits,
                            .rows = device_rows + first,
                            .seen_begin = {},
                            .bias_begin = begins.Slice(first, num + 1),
                            .bias = device_bias,
                            .mask = {},
                            .token_ids = out.token_ids,
                            .logprobs = out.logprobs,
                            .top_ids = out.top_ids,
                            .top_logprobs = out.top_logprobs});
  }
  outputs_.CopyToHost(queue);
}

// A token without a probability cannot be drawn: another is, or none.
GeneratedToken PromptScorer::Score(const ScoredRow& row, size_t index) const {
  GeneratedToken token = outputs_.Token(static_cast<int>(index), row.num_top);
  if (token.token_id != row.next_token) {
    token.token_id = row.next_token;
    token.logprob = -std::numeric_limits<float>::infinity();
  }
  return token;
}

}  // namespace winnow
