#include "cli/bench_throughput.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/size_text.h"
#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/random_tokens.h"
#include "cli/roof.h"
#include "sparse/selector.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxContext = 1 << 20;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start)
      .count();
}

// One row of the table.
struct Cell {
  std::string select;
  int context_tokens = 0;
  int batch = 0;
};

// What a cell measured; medians over the rounds.
struct CellFigures {
  double first_token_ms = 0;  // of the request that gets it last
  double step_ms = 0;         // of a step in which all generate
};

class CountingObserver final : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override {
    ++num_tokens;
    return true;
  }
  void OnFinish(const Completion&) override {}
  int num_tokens = 0;
};

// Requests of one round: ends them all when it goes.
class RoundRequests {
 public:
  explicit RoundRequests(Engine& engine) : engine_(engine) {}
  ~RoundRequests() {
    for (const SequenceId id : ids_) engine_.Cancel(id);
  }
  RoundRequests(const RoundRequests&) = delete;
  RoundRequests& operator=(const RoundRequests&) = delete;

  Status Add(const Request& request, int count) {
    observers_.resize(static_cast<size_t>(count));
    for (CountingObserver& observer : observers_) {
      ASSIGN_OR_RETURN(const SequenceId id, engine_.Add(request, &observer));
      ids_.push_back(id);
    }
    return Ok{};
  }
  bool AllGenerate() const {
    return std::ranges::all_of(observers_, [](const CountingObserver& each) {
      return each.num_tokens > 0;
    });
  }

 private:
  Engine& engine_;
  std::vector<CountingObserver> observers_;  // never grows after Add
  std::vector<SequenceId> ids_;
};

// Tokens that a request may generate before the last one's prompt is read, and
// those that are measured.
int MaxTokens(const BenchFlags& flags, const Cell& cell) {
  const int64_t prompt_tokens = int64_t{cell.batch} * cell.context_tokens;
  const int64_t prompt_steps =
      prompt_tokens / flags.engine.max_num_batched_tokens + cell.batch + 2;
  return static_cast<int>(prompt_steps) + flags.generated_tokens + 1;
}

Result<CellFigures> RunRound(Engine& engine, const BenchFlags& flags,
                             const Cell& cell, int vocab_size) {
  std::mt19937 random(static_cast<uint32_t>(flags.engine.seed));
  Request request;
  request.prompt = RandomTokens(cell.context_tokens, vocab_size, random);
  request.max_tokens = MaxTokens(flags, cell);
  request.sampling.temperature = 0;
  if (cell.select != "dense") request.selector = 0;
  RoundRequests requests(engine);
  const Clock::time_point start = Clock::now();
  RETURN_IF_ERROR(requests.Add(request, cell.batch));
  CellFigures figures;
  while (!requests.AllGenerate()) {
    ASSIGN_OR_RETURN(const bool more, engine.Step());
    CHECK(more, "requests ended before all generated");
  }
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

Result<EngineOptions> OptionsOf(const BenchFlags& flags, const Model& model,
                                const Cell& cell) {
  ASSIGN_OR_RETURN(EngineOptions options, ParseEngineOptions(flags.engine));
  const int64_t tokens = cell.context_tokens + MaxTokens(flags, cell) + 1;
  options.max_num_seqs = cell.batch;
  options.prefix_caching = false;  // Every round reads its prompts anew.
  options.max_model_len = static_cast<int>(tokens);
  options.device_kv_bytes = cell.batch * PagesFor(tokens) * kPageTokens *
                            KvBytesPerToken(model.config(), model.dtype());
  if (cell.select != "dense") options.selectors = {cell.select};
  return ResolveOptions(options, model.config());
}

// Whether every cell can be measured: the last one must not waste the others.
Status CheckCells(const Backend& backend, const Model& model,
                  const BenchFlags& flags, const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    ASSIGN_OR_RETURN(const EngineOptions options,
                     OptionsOf(flags, model, cell));
    RETURN_IF_ERROR(KvPagesOf(options, model, backend.attributes()));
    for (const std::string& spec : options.selectors) {
      RETURN_IF_ERROR(
          MakeSelector(spec, SelectorShapeOf(model, options.max_model_len)));
    }
  }
  return Ok{};
}

Result<CellFigures> MeasureCell(Backend& backend, const Model& model,
                                const BenchFlags& flags, const Cell& cell) {
  ASSIGN_OR_RETURN(const EngineOptions options, OptionsOf(flags, model, cell));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(backend, model, options));
  const int vocab_size = model.config().vocab_size;
  // To warm up: a chunk of a prompt and steps, which is all the code there is.
  Cell first_chunk = cell;
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

Result<std::vector<Cell>> CellsOf(const BenchFlags& flags,
                                  const NativeSelector& native_selector) {
  ASSIGN_OR_RETURN(const std::vector<int> batches,
                   ParseCounts("--batches", flags.batches, kMaxNumSeqs));
  ASSIGN_OR_RETURN(const std::vector<int> contexts,
                   ParseCounts("--contexts", flags.contexts, kMaxContext));
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags.selects));
  std::vector<Cell> cells;
  for (const std::string& select : selects) {
    ASSIGN_OR_RETURN(const std::string resolved,
                     ResolveSelect(select, native_selector));
    for (const int context : contexts) {
      for (const int batch : batches) {
        cells.push_back({resolved, context, batch});
      }
    }
  }
  return cells;
}

Result<Model> OpenAnyModel(Backend& backend, const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::optional<Dtype> dtype,
                   ParseDtype(flags.engine.dtype));
  if (!flags.shape.empty()) {
    return Model::OfShape(flags.shape, dtype.value_or(Dtype::kBFloat16),
                          backend);
  }
  LoadOptions options;
  options.dtype = dtype;
  ASSIGN_OR_RETURN(Model model, LoadModel(flags.engine.model, options));
  RETURN_IF_ERROR(model.Upload(backend, {}));
  return model;
}

nlohmann::ordered_json RowOf(const Cell& cell, const CellFigures& figures) {
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

Result<std::vector<int>> ParseCounts(const std::string& flag,
                                     const std::string& list, int64_t most) {
  std::vector<int> counts;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string text = list.substr(begin, end - begin);
    const Result<int64_t> count = ParseTokens(text);
    if (!count.ok() || *count < 1 || *count > most) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} must be numbers from 1 to {} with commas (1,16; "
                       "1K,32K), has \"{}\"",
                       flag, most, text);
    }
    counts.push_back(static_cast<int>(*count));
    begin = end + 1;
  }
  return counts;
}

Status CheckThroughputFlags(const BenchFlags& flags) {
  if (flags.engine.model.empty() == flags.shape.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "bench throughput: give either MODEL or --shape");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags.selects));
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, selects));
  RETURN_IF_ERROR(CellsOf(flags, /*native_selector=*/std::nullopt));
  return Ok{};
}

Result<int> RunBenchThroughput(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   MakeBackend(flags.engine));
  ASSIGN_OR_RETURN(const Model model, OpenAnyModel(*backend, flags));
  ASSIGN_OR_RETURN(const std::vector<Cell> cells,
                   CellsOf(flags, model.config().native_selector));
  RETURN_IF_ERROR(CheckCells(*backend, model, flags, cells));
  const bool prints = !flags.engine.json;
  if (prints) {
    Print(fmt::format("{}, {}\n", backend->attributes().description,
                      DtypeName(model.dtype())));
    Print(fmt::format("{:>8} {:>6} {:>16} {:>10} {:>12} {:>12}  {}\n",
                      "context", "batch", "first token, ms", "step, ms",
                      "prompt tok/s", "tokens/s", "select"));
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Cell& cell : cells) {
    ASSIGN_OR_RETURN(const CellFigures figures,
                     MeasureCell(*backend, model, flags, cell));
    rows.push_back(RowOf(cell, figures));
    if (prints) PrintRow(rows.back());
    RETURN_IF_ERROR(CheckOutputIsRead());  // Others are minutes of work.
  }
  if (prints) return 0;
  const nlohmann::ordered_json report = {
      {"model", flags.shape.empty() ? flags.engine.model : flags.shape},
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
