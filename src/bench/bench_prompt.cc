#include "bench/bench_prompt.h"

#include "bench/roofs/roof.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// Each prompt is one request's.
BenchCell RequestOf(const PromptCell& cell) {
  return {
      .select = cell.select, .context_tokens = cell.prompt_tokens, .batch = 1};
}

EngineFlags PromptFlags(const PromptOptions& options, const PromptCell& cell) {
  EngineFlags flags = options.engine;
  flags.max_num_batched_tokens = cell.chunk_tokens;
  return flags;
}

int MaxTokens(const PromptOptions& options, const PromptCell& cell) {
  return MaxTokensOf(RequestOf(cell), PromptFlags(options, cell),
                     /*generated=*/0);
}

Result<EngineOptions> OptionsOf(const Model& model,
                                const PromptOptions& options,
                                const PromptCell& cell) {
  return EngineOptionsOf(RequestOf(cell), PromptFlags(options, cell), model,
                         MaxTokens(options, cell));
}

// Seconds until a prompt of the cell has its first token.
Result<double> FirstTokenSeconds(Engine& engine, const Model& model,
                                 const PromptOptions& options,
                                 const PromptCell& cell) {
  CellRequests requests(engine);
  Status status = Ok{};
  const double seconds = SecondsOf([&] {
    status = requests.Add(RequestOf(cell), MaxTokens(options, cell),
                          model.config().vocab_size, options.engine.seed);
    if (status.ok()) status = requests.StepUntilAllGenerate();
  });
  RETURN_IF_ERROR(status);
  return seconds;
}

Json RowOf(const PromptCell& cell, double first_token_seconds,
           const OpSeconds& ops) {
  return {{"select", cell.select},
          {"prompt", cell.prompt_tokens},
          {"chunk", cell.chunk_tokens},
          {"first_token_ms", first_token_seconds * 1e3},
          {"tokens_per_second", cell.prompt_tokens / first_token_seconds},
          {"verbs_ms", ops.sum() * 1e3},
          {"products_share", ops.products / ops.sum()},
          {"attention_share", ops.attention / ops.sum()},
          {"choices_share", ops.choices / ops.sum()},
          {"rest_share", ops.rest / ops.sum()}};
}

}  // namespace

Status CheckPrompt(const Backend& backend, const Model& model,
                   const PromptOptions& options, const PromptCell& cell) {
  ASSIGN_OR_RETURN(const EngineOptions engine_options,
                   OptionsOf(model, options, cell));
  return CheckCell(engine_options, model, backend);
}

Result<Json> MeasurePrompt(OpTimesBackend& backend, const Model& model,
                           const PromptOptions& options,
                           const PromptCell& cell) {
  ASSIGN_OR_RETURN(const EngineOptions engine_options,
                   OptionsOf(model, options, cell));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(backend, model, engine_options));
  // To warm up: a chunk, which is all the code there is.
  PromptCell chunk = cell;
  chunk.prompt_tokens = std::min(cell.prompt_tokens, cell.chunk_tokens);
  RETURN_IF_ERROR(FirstTokenSeconds(*engine, model, options, chunk));
  std::vector<double> seconds;
  for (int round = 0; round < options.rounds; ++round) {
    ASSIGN_OR_RETURN(const double first_token,
                     FirstTokenSeconds(*engine, model, options, cell));
    seconds.push_back(first_token);
  }
  backend.Measure();
  const Result<double> measured =
      FirstTokenSeconds(*engine, model, options, cell);
  const Result<OpSeconds> ops = backend.Take();
  if (!measured.ok()) return measured.error();
  if (!ops.ok()) return ops.error();
  return RowOf(cell, Median(std::move(seconds)), *ops);
}

std::string PromptHeader() {
  return fmt::format(
      "{:>8} {:>7} {:>16} {:>10} {:>10} {:>9} {:>10} {:>8} {:>6}  {}\n",
      "prompt", "chunk", "first token, ms", "tok/s", "ops, ms", "products",
      "attention", "choices", "rest", "select");
}

std::string PromptLine(const Json& row) {
  return fmt::format(
      "{:>8} {:>7} {:>16.1f} {:>10.0f} {:>10.1f} {:>9.3f} {:>10.3f} {:>8.3f} "
      "{:>6.3f}  {}\n",
      row["prompt"].get<int>(), row["chunk"].get<int>(),
      row["first_token_ms"].get<double>(),
      row["tokens_per_second"].get<double>(), row["verbs_ms"].get<double>(),
      row["products_share"].get<double>(), row["attention_share"].get<double>(),
      row["choices_share"].get<double>(), row["rest_share"].get<double>(),
      row["select"].get<std::string>());
}

}  // namespace winnow
