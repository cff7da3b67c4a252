#include "cli/bench_throughput.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/bench_cells.h"
#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/roof.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

// What a cell measured; medians over the rounds.
struct CellFigures {
  double first_token_ms = 0;  // of the request that gets it last
  double step_ms = 0;         // of a step in which all generate
};

BenchCellLists ListsOf(const BenchFlags& flags) {
  return {.contexts_flag = "--contexts",
          .contexts = flags.contexts,
          .batches_flag = "--batches",
          .batches = flags.batches,
          .selects = flags.selects};
}

Result<EngineOptions> OptionsOf(const BenchFlags& flags, const Model& model,
                                const BenchCell& cell) {
  return EngineOptionsOf(
      cell, flags.engine, model,
      MaxTokensOf(cell, flags.engine, flags.generated_tokens));
}

Result<CellFigures> RunRound(Engine& engine, const BenchFlags& flags,
                             const BenchCell& cell, int vocab_size) {
  CellRequests requests(engine);
  const Clock::time_point start = Clock::now();
  RETURN_IF_ERROR(requests.Add(
      cell, MaxTokensOf(cell, flags.engine, flags.generated_tokens), vocab_size,
      flags.engine.seed));
  RETURN_IF_ERROR(requests.StepUntilAllGenerate());
  CellFigures figures;
  figures.first_token_ms = MillisecondsSince(start);
  std::vector<double> steps;
  for (int i = 0; i < flags.generated_tokens; ++i) {
    const Clock::time_point begin = Clock::now();
    ASSIGN_OR_RETURN(const bool more, engine.Step());
    CHECK(more || i + 1 == flags.generated_tokens,
          "requests ended after {} of {} steps", i + 1, flags.generated_tokens);
    steps.push_back(MillisecondsSince(begin));
  }
  figures.step_ms = Median(std::move(steps));
  return figures;
}

Result<CellFigures> MeasureCell(Backend& backend, const Model& model,
                                const BenchFlags& flags,
                                const BenchCell& cell) {
  ASSIGN_OR_RETURN(const EngineOptions options, OptionsOf(flags, model, cell));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(backend, model, options));
  const int vocab_size = model.config().vocab_size;
  // To warm up: a chunk of a prompt and steps, which is all the code there is.
  BenchCell first_chunk = cell;
  first_chunk.context_tokens =
      std::min(cell.context_tokens, flags.engine.max_num_batched_tokens);
  RETURN_IF_ERROR(RunRound(*engine, flags, first_chunk, vocab_size));
  std::vector<double> first_tokens, steps;
  for (int round = 0; round < flags.rounds; ++round) {
    ASSIGN_OR_RETURN(const CellFigures figures,
                     RunRound(*engine, flags, cell, vocab_size));
    first_tokens.push_back(figures.first_token_ms);
    steps.push_back(figures.step_ms);
  }
  return CellFigures{.first_token_ms = Median(std::move(first_tokens)),
                     .step_ms = Median(std::move(steps))};
}

nlohmann::ordered_json RowOf(const BenchCell& cell,
                             const CellFigures& figures) {
  const double prompt_tokens =
      static_cast<double>(cell.batch) * cell.context_tokens;
  return {{"select", cell.select},
          {"context", cell.context_tokens},
          {"batch", cell.batch},
          {"first_token_ms", figures.first_token_ms},
          {"step_ms", figures.step_ms},
          {"prompt_tokens_per_second",
           prompt_tokens / figures.first_token_ms * 1e3},
          {"tokens_per_second", cell.batch / figures.step_ms * 1e3}};
}

void PrintRow(const nlohmann::ordered_json& row) {
  Print(fmt::format("{:>8} {:>6} {:>16.1f} {:>10.3f} {:>12.0f} {:>12.1f}  {}\n",
                    row["context"].get<int>(), row["batch"].get<int>(),
                    row["first_token_ms"].get<double>(),
                    row["step_ms"].get<double>(),
                    row["prompt_tokens_per_second"].get<double>(),
                    row["tokens_per_second"].get<double>(),
                    row["select"].get<std::string>()));
}

}  // namespace

Status CheckThroughputFlags(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags.selects));
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, selects));
  RETURN_IF_ERROR(
      BenchCellsOf(ListsOf(flags), /*native_selector=*/std::nullopt));
  return Ok{};
}

Result<int> RunBenchThroughput(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   MakeBackend(flags.engine));
  ASSIGN_OR_RETURN(const Model model,
                   OpenModelOrShape(*backend, flags.engine, flags.shape));
  ASSIGN_OR_RETURN(
      const std::vector<BenchCell> cells,
      BenchCellsOf(ListsOf(flags), model.config().native_selector));
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(const EngineOptions options,
                     OptionsOf(flags, model, cell));
    RETURN_IF_ERROR(CheckCell(options, model, *backend));
  }
  const bool prints = !flags.engine.json;
  if (prints) {
    Print(fmt::format("{}, {}\n", backend->attributes().description,
                      DtypeName(model.dtype())));
    Print(fmt::format("{:>8} {:>6} {:>16} {:>10} {:>12} {:>12}  {}\n",
                      "context", "batch", "first token, ms", "step, ms",
                      "prompt tok/s", "tokens/s", "select"));
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(const CellFigures figures,
                     MeasureCell(*backend, model, flags, cell));
    rows.push_back(RowOf(cell, figures));
    if (prints) PrintRow(rows.back());
    RETURN_IF_ERROR(CheckOutputIsRead());  // Others are minutes of work.
  }
  if (prints) return 0;
  const nlohmann::ordered_json report = {
      {"model", ModelName(flags)},
      {"device", backend->attributes().description},
      {"dtype", DtypeName(model.dtype())},
      {"rounds", flags.rounds},
      {"generated_tokens", flags.generated_tokens},
      {"cells", std::move(rows)}};
  const int indent = flags.engine.json_file.empty() ? -1 : 2;
  RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
  return 0;
}

}  // namespace winnow
