// MeasurePrompt: the time of one cell's prompts, by length, selection and
// chunk.
#ifndef WINNOW_BENCH_BENCH_PROMPT_H_
#define WINNOW_BENCH_BENCH_PROMPT_H_

#include <nlohmann/json.hpp>

#include "bench/bench_cells.h"
#include "bench/ops/bench_op_times.h"

namespace winnow {

struct PromptCell {
  std::string select;
  int prompt_tokens = 0;
  int chunk_tokens = 0;  // the most in one step
};

struct PromptOptions {
  EngineFlags engine;
  int rounds = 3;
};

// Fails if the cell cannot be measured: its context, KV and selection.
Status CheckPrompt(const Backend& backend, const Model& model,
                   const PromptOptions& options, const PromptCell& cell);

// The row of a cell:
//  first_token_ms     from the request to its first token: median of the
//                     rounds
//  tokens_per_second  of the prompt, by that
//  ops_ms           the same prompt once more, its ops one after the other
//                     and each alone, by the device's clock: their sum
//  products_share, attention_share, choices_share, rest_share
//                     of that sum: see OpSeconds
Result<nlohmann::ordered_json> MeasurePrompt(OpTimesBackend& backend,
                                             const Model& model,
                                             const PromptOptions& options,
                                             const PromptCell& cell);

std::string PromptHeader();
std::string PromptLine(const nlohmann::ordered_json& row);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_PROMPT_H_
