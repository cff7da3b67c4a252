#include "bench/bench_throughput.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>

#include "bench/bench_cells.h"
#include "bench/bench_questions.h"
#include "bench/roofs/roof.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"

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
  int answers_right = 0;      // of questions, of the round with the fewest
};

// One command's work: its cells' requests in engines on one backend.
class ThroughputBench {
 public:
  // REQUIRES: all outlive this.
  ThroughputBench(Backend& backend, const Model& model, const BenchFlags& flags)
      : backend_(backend), model_(model), flags_(flags) {}

  // Which cells there are, of an engine that can be had.
  Result<std::vector<BenchCell>> Plan();
  bool asks() const { return questions_.has_value(); }
  Result<CellFigures> Measure(const BenchCell& cell);

 private:
  int MaxTokens(const BenchCell& cell) const {
    return MaxTokensOf(cell, flags_.engine, flags_.generated_tokens);
  }
  Result<EngineOptions> OptionsOf(const BenchCell& cell) const {
    return EngineOptionsOf(cell, flags_.engine, model_, MaxTokens(cell));
  }
  Status ReadQuestions(std::vector<BenchCell>& cells);
  Status AddRandom(CellRequests& requests, const BenchCell& cell) const {
    return requests.Add(cell, MaxTokens(cell), model_.config().vocab_size,
                        flags_.engine.seed);
  }
  Status AddQuestions(CellRequests& requests, const BenchCell& cell) const;
  Status WarmUp(Engine& engine, const BenchCell& cell) const;
  Result<CellFigures> RunRound(Engine& engine, const BenchCell& cell) const;
  Status RunSteps(Engine& engine, CellRequests& requests,
                  CellFigures& figures) const;

  Backend& backend_;
  const Model& model_;
  const BenchFlags& flags_;
  std::optional<BenchQuestions> questions_;
};

BenchCellLists ThroughputLists(const BenchFlags& flags) {
  return {.contexts_flag = "--contexts",
          .contexts = flags.contexts.empty() ? "1K" : flags.contexts,
          .batches_flag = "--batches",
          .batches = flags.batches,
          .selects = flags.selects};
}

Result<std::vector<BenchCell>> ThroughputBench::Plan() {
  ASSIGN_OR_RETURN(
      std::vector<BenchCell> cells,
      BenchCellsOf(ThroughputLists(flags_), model_.config().native_selector));
  if (!flags_.tasks.empty()) RETURN_IF_ERROR(ReadQuestions(cells));
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(const EngineOptions options, OptionsOf(cell));
    RETURN_IF_ERROR(CheckCell(options, model_, backend_));
  }
  return cells;
}

Status ThroughputBench::ReadQuestions(std::vector<BenchCell>& cells) {
  const auto batches = std::views::transform(cells, &BenchCell::batch);
  ASSIGN_OR_RETURN(questions_,
                   BenchQuestions::Read(
                       model_, {.file = flags_.tasks,
                                .model_folder = flags_.engine.model,
                                .most_requests = std::ranges::max(batches),
                                .generated_tokens = flags_.generated_tokens}));
  for (BenchCell& cell : cells) {
    cell.context_tokens = questions_->PromptTokens(cell.batch);
  }
  return Ok{};
}

Status ThroughputBench::AddQuestions(CellRequests& requests,
                                     const BenchCell& cell) const {
  std::vector<Request> asked = questions_->Requests(cell.batch);
  for (Request& request : asked) {
    request.max_tokens = MaxTokens(cell);
    if (cell.select != "dense") request.selector = 0;
  }
  return requests.Add(asked);
}

// A chunk of a prompt and steps, which is all the code there is.
Status ThroughputBench::WarmUp(Engine& engine, const BenchCell& cell) const {
  BenchCell first_chunk = cell;
  first_chunk.context_tokens =
      std::min(cell.context_tokens, flags_.engine.max_num_batched_tokens);
  CellRequests requests(engine);
  RETURN_IF_ERROR(AddRandom(requests, first_chunk));
  CellFigures figures;
  return RunSteps(engine, requests, figures);
}

Status ThroughputBench::RunSteps(Engine& engine, CellRequests& requests,
                                 CellFigures& figures) const {
  const Clock::time_point start = Clock::now();
  RETURN_IF_ERROR(requests.StepUntilAllGenerate());
  figures.first_token_ms = MillisecondsSince(start);
  std::vector<double> steps;
  for (int i = 0; i < flags_.generated_tokens; ++i) {
    const Clock::time_point begin = Clock::now();
    ASSIGN_OR_RETURN(const bool more, engine.Step());
    CHECK(more || i + 1 == flags_.generated_tokens,
          "requests ended after {} of {} steps", i + 1,
          flags_.generated_tokens);
    steps.push_back(MillisecondsSince(begin));
  }
  figures.step_ms = Median(std::move(steps));
  return Ok{};
}

Result<CellFigures> ThroughputBench::RunRound(Engine& engine,
                                              const BenchCell& cell) const {
  CellRequests requests(engine);
  RETURN_IF_ERROR(asks() ? AddQuestions(requests, cell)
                         : AddRandom(requests, cell));
  CellFigures figures;
  RETURN_IF_ERROR(RunSteps(engine, requests, figures));
  for (int i = 0; asks() && i < cell.batch; ++i) {
    ASSIGN_OR_RETURN(
        const bool is_right,
        questions_->IsRight(i, requests.tokens(static_cast<size_t>(i))));
    if (is_right) ++figures.answers_right;
  }
  return figures;
}

Result<CellFigures> ThroughputBench::Measure(const BenchCell& cell) {
  ASSIGN_OR_RETURN(const EngineOptions options, OptionsOf(cell));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(backend_, model_, options));
  RETURN_IF_ERROR(WarmUp(*engine, cell));
  CellFigures all = {.answers_right = cell.batch};
  std::vector<double> first_tokens, steps;
  for (int round = 0; round < flags_.rounds; ++round) {
    ASSIGN_OR_RETURN(const CellFigures figures, RunRound(*engine, cell));
    first_tokens.push_back(figures.first_token_ms);
    steps.push_back(figures.step_ms);
    all.answers_right = std::min(all.answers_right, figures.answers_right);
  }
  all.first_token_ms = Median(std::move(first_tokens));
  all.step_ms = Median(std::move(steps));
  return all;
}

nlohmann::ordered_json RowOf(const BenchCell& cell, const CellFigures& figures,
                             bool asks) {
  const double prompt_tokens =
      static_cast<double>(cell.batch) * cell.context_tokens;
  nlohmann::ordered_json row = {
      {"select", cell.select},
      {"context", cell.context_tokens},
      {"batch", cell.batch},
      {"first_token_ms", figures.first_token_ms},
      {"step_ms", figures.step_ms},
      {"prompt_tokens_per_second",
       prompt_tokens / figures.first_token_ms * 1e3},
      {"tokens_per_second", cell.batch / figures.step_ms * 1e3}};
  if (asks) row["answers_right"] = figures.answers_right;
  return row;
}

std::string Header(bool asks) {
  return fmt::format("{:>8} {:>6} {:>16} {:>10} {:>12} {:>12}{}  {}\n",
                     "context", "batch", "first token, ms", "step, ms",
                     "prompt tok/s", "tokens/s", asks ? "  right" : "",
                     "select");
}

std::string LineOf(const nlohmann::ordered_json& row) {
  const std::string right =
      row.contains("answers_right")
          ? fmt::format(" {:>6}", row["answers_right"].get<int>())
          : "";
  return fmt::format(
      "{:>8} {:>6} {:>16.1f} {:>10.3f} {:>12.0f} {:>12.1f}{}  {}\n",
      row["context"].get<int>(), row["batch"].get<int>(),
      row["first_token_ms"].get<double>(), row["step_ms"].get<double>(),
      row["prompt_tokens_per_second"].get<double>(),
      row["tokens_per_second"].get<double>(), right,
      row["select"].get<std::string>());
}

}  // namespace

Status CheckThroughputFlags(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags.selects));
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, selects));
  RETURN_IF_ERROR(
      BenchCellsOf(ThroughputLists(flags), /*native_selector=*/std::nullopt));
  if (flags.tasks.empty()) return Ok{};
  if (!flags.shape.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--tasks is for a MODEL: random weights of --shape \"{}\" "
                     "have no tokenizer",
                     flags.shape);
  }
  if (!flags.contexts.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--contexts is \"{}\" beside --tasks: a question's "
                     "length is its line's",
                     flags.contexts);
  }
  return Ok{};
}

Result<int> RunBenchThroughput(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   MakeBackend(flags.engine));
  ASSIGN_OR_RETURN(const Model model,
                   OpenModelOrShape(*backend, flags.engine, flags.shape));
  ThroughputBench bench(*backend, model, flags);
  ASSIGN_OR_RETURN(const std::vector<BenchCell> cells, bench.Plan());
  const bool prints = !flags.engine.json;
  if (prints) {
    Print(fmt::format("{}, {}\n{}", backend->attributes().description,
                      DtypeName(model.dtypes().compute), Header(bench.asks())));
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(const CellFigures figures, bench.Measure(cell));
    rows.push_back(RowOf(cell, figures, bench.asks()));
    if (prints) Print(LineOf(rows.back()));
    RETURN_IF_ERROR(CheckOutputIsRead());  // Others are minutes of work.
  }
  if (prints) return 0;
  const nlohmann::ordered_json report = {
      {"model", ModelName(flags)},
      {"device", backend->attributes().description},
      {"dtype", DtypeName(model.dtypes().compute)},
      {"rounds", flags.rounds},
      {"generated_tokens", flags.generated_tokens},
      {"cells", std::move(rows)}};
  const int indent = flags.engine.json_file.empty() ? -1 : 2;
  RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
  return 0;
}

}  // namespace winnow
