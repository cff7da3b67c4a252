#include "bench/bench_step.h"

#include <nlohmann/json.hpp>

#include "bench/bench_device_step.h"
#include "bench/ops/bench_products.h"
#include "bench/random_tokens.h"
#include "bench/roofs/roof.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"
#include "cli/command/progress.h"

namespace winnow {
namespace {

// Counts; the tokens themselves mean nothing here.
class CountingObserver : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override { return true; }
  void OnFinish(const Completion& completion) override {
    timing = completion.timing;
  }
  RequestTiming timing;
};

struct StepFigures {
  double prompt_seconds = 0;  // until every request has its first token
  double decode_seconds = 0;  // from there to the end
};

Result<StepFigures> RunRequests(Engine& engine, const BenchFlags& flags,
                                const BenchCell& cell, int vocab_size) {
  std::mt19937 random(static_cast<uint32_t>(flags.engine.seed));
  std::vector<CountingObserver> observers(static_cast<size_t>(cell.batch));
  std::vector<SequenceId> ids;
  for (CountingObserver& observer : observers) {
    Request request;
    request.prompt = RandomTokens(cell.context_tokens, vocab_size, random);
    request.max_tokens = flags.generated_tokens + 1;
    request.sampling.temperature = 0;
    const Result<SequenceId> id = engine.Add(std::move(request), &observer);
    if (!id.ok()) {
      // Nobody may be told of anything once the observers are gone.
      for (const SequenceId added : ids) engine.Cancel(added);
      return id.error();
    }
    ids.push_back(*id);
  }
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    ASSIGN_OR_RETURN(const bool more, engine.Step());
    if (!more) break;
  }
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  StepFigures figures;
  for (const CountingObserver& observer : observers) {
    figures.prompt_seconds =
        std::max(figures.prompt_seconds, observer.timing.first_token_ms / 1000);
  }
  figures.decode_seconds = elapsed.count() - figures.prompt_seconds;
  return figures;
}

// What one round measured, its parts one right after another, so that what
// else this machine does meets them alike.
struct Round {
  double read_bytes_per_second = 0;    // the machine's roof
  double weight_bytes_per_second = 0;  // the same plain read, of weights
  double product_seconds = 0;
  StepFigures step;
};

// The median over the rounds of what `figure` makes of each.
template <typename Figure>
double MedianOf(const std::vector<Round>& rounds, Figure&& figure) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(figure(round));
  return Median(std::move(values));
}

nlohmann::ordered_json Report(const BenchFlags& flags, const BenchCell& cell,
                              const Model& model,
                              const std::vector<Round>& rounds) {
  const auto rows = static_cast<double>(cell.batch) * cell.context_tokens;
  const double prompt_flops = ProductFlops(
      model, int64_t{cell.batch} * cell.context_tokens, cell.batch);
  const double product_flops =
      ProductFlops(model, int64_t{cell.batch} * cell.context_tokens, 0);
  const auto weight_bytes = static_cast<double>(ProductBytes(model));
  const auto step_seconds = [&](const Round& round) {
    return round.step.decode_seconds / flags.generated_tokens;
  };
  const auto decode_rate = [&](const Round& round) {
    return weight_bytes / step_seconds(round);
  };
  const auto median = [&](auto figure) { return MedianOf(rounds, figure); };
  return {
      {"model", ModelName(flags)},
      {"dtype", DtypeName(model.dtypes().compute)},
      {"batch", cell.batch},
      {"prompt_tokens", cell.context_tokens},
      {"generated_tokens", flags.generated_tokens},
      {"rounds", rounds.size()},
      {"prompt_tokens_per_second",
       median([&](const Round& r) { return rows / r.step.prompt_seconds; })},
      {"prompt_gflops", median([&](const Round& r) {
         return prompt_flops / r.step.prompt_seconds / 1e9;
       })},
      {"products_gflops", median([&](const Round& r) {
         return product_flops / r.product_seconds / 1e9;
       })},
      {"prompt_share_of_products", median([](const Round& r) {
         return r.product_seconds / r.step.prompt_seconds;
       })},
      {"decode_ms_per_step",
       median([&](const Round& r) { return step_seconds(r) * 1e3; })},
      {"decode_tokens_per_second",
       median([&](const Round& r) { return cell.batch / step_seconds(r); })},
      {"decode_weight_gb_per_second",
       median([&](const Round& r) { return decode_rate(r) / 1e9; })},
      {"read_roof_gb_per_second",
       median([](const Round& r) { return r.read_bytes_per_second / 1e9; })},
      {"weight_read_gb_per_second",
       median([](const Round& r) { return r.weight_bytes_per_second / 1e9; })},
      {"decode_share_of_read_roof", median([&](const Round& r) {
         return decode_rate(r) / r.read_bytes_per_second;
       })},
      {"decode_share_of_weight_read", median([&](const Round& r) {
         return decode_rate(r) / r.weight_bytes_per_second;
       })}};
}

void PrintReport(const nlohmann::ordered_json& report) {
  for (const auto& [name, value] : report.items()) {
    if (value.is_number_float()) {
      Print(fmt::format("{:<30} {:>12.2f}\n", name, value.get<double>()));
    } else {
      Print(fmt::format("{:<30} {:>12}\n", name, value.dump()));
    }
  }
}

Result<std::vector<Round>> RunRounds(Backend& backend, const Model& model,
                                     Engine& engine, const BenchFlags& flags,
                                     const BenchCell& cell) {
  ThreadPool pool(flags.engine.threads);
  ASSIGN_OR_RETURN(const ReadRoof roof, ReadRoof::Create(pool));
  ASSIGN_OR_RETURN(
      BenchProducts products,
      BenchProducts::Create(backend, model,
                            int64_t{cell.batch} * cell.context_tokens));
  const int vocab_size = model.config().vocab_size;
  const std::vector<Bytes> weights = ProductWeights(model);
  products.Run();  // To warm up, as the requests do.
  RETURN_IF_ERROR(RunRequests(engine, flags, cell, vocab_size));
  std::vector<Round> rounds(static_cast<size_t>(flags.rounds));
  for (Round& round : rounds) {
    round.read_bytes_per_second = roof.BytesPerSecond();
    round.weight_bytes_per_second = ReadBytesPerSecond(pool, weights);
    round.product_seconds = SecondsOf([&] { products.Run(); });
    ASSIGN_OR_RETURN(round.step, RunRequests(engine, flags, cell, vocab_size));
  }
  return rounds;
}

BenchCellLists StepLists(const BenchFlags& flags) {
  return {.contexts_flag = "--prompt",
          .contexts = flags.prompts,
          .batches_flag = "--batch",
          .batches = flags.step_batches,
          .selects = flags.selects};
}

bool OnGpu(const BenchFlags& flags) {
  return flags.engine.device.starts_with("cuda");
}

Status WriteReport(const BenchFlags& flags,
                   const nlohmann::ordered_json& report) {
  // A file is for people to read, too.
  const int indent = flags.engine.json_file.empty() ? -1 : 2;
  return WriteJson(flags.engine, report.dump(indent) + "\n");
}

Result<int> RunOnGpu(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> device, MakeBackend(flags.engine));
  ASSIGN_OR_RETURN(const Model model,
                   OpenModelOrShape(*device, flags.engine, flags.shape));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<PromptlessBackend> backend,
      PromptlessBackend::Create(std::move(device), model,
                                flags.engine.max_num_batched_tokens));
  ASSIGN_OR_RETURN(
      const std::vector<BenchCell> cells,
      BenchCellsOf(StepLists(flags), model.config().native_selector));
  const DeviceStepOptions options = {.engine = flags.engine,
                                     .generated_tokens = flags.generated_tokens,
                                     .rounds = flags.rounds};
  for (const BenchCell& cell : cells) {
    RETURN_IF_ERROR(CheckDeviceStep(*backend, model, options, cell));
  }
  const bool prints = !flags.engine.json;
  if (prints) {
    Print(fmt::format("{}, {}\n{}", backend->attributes().description,
                      DtypeName(model.dtypes().compute), DeviceStepHeader()));
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(nlohmann::ordered_json row,
                     MeasureDeviceStep(*backend, model, options, cell));
    if (prints) Print(DeviceStepLine(row));
    rows.push_back(std::move(row));
    RETURN_IF_ERROR(CheckOutputIsRead());  // Others are minutes of work.
  }
  if (prints) return 0;
  RETURN_IF_ERROR(
      WriteReport(flags, {{"model", ModelName(flags)},
                          {"device", backend->attributes().description},
                          {"dtype", DtypeName(model.dtypes().compute)},
                          {"rounds", flags.rounds},
                          {"generated_tokens", flags.generated_tokens},
                          {"cells", std::move(rows)}}));
  return 0;
}

Result<int> RunOnCpu(const BenchFlags& flags, const BenchCell& cell) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   MakeCpuBackendFor(flags.engine));
  ASSIGN_OR_RETURN(const Model model,
                   OpenModelOrShape(*backend, flags.engine, flags.shape));
  ASSIGN_OR_RETURN(EngineOptions options, ParseEngineOptions(flags.engine));
  options.max_num_seqs = cell.batch;
  options.prefix_caching = false;  // Every round reads its prompts anew.
  // Before the products of the prompt, which take as long as the prompt.
  ASSIGN_OR_RETURN(options, ResolveOptions(options, model.config()));
  const RequestLimits limits = {.max_model_len = options.max_model_len};
  RETURN_IF_ERROR(
      limits.CheckLength(cell.context_tokens, flags.generated_tokens + 1));
  const int64_t tokens =
      int64_t{cell.context_tokens} + flags.generated_tokens + 1;
  options.device_kv_bytes = cell.batch * PagesFor(tokens) * kPageTokens *
                            KvBytesPerToken(model.config(), model.dtypes().kv);
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(*backend, model, options));
  ASSIGN_OR_RETURN(const std::vector<Round> rounds,
                   RunRounds(*backend, model, *engine, flags, cell));
  const nlohmann::ordered_json report = Report(flags, cell, model, rounds);
  if (!flags.engine.json) {
    PrintReport(report);
  } else {
    RETURN_IF_ERROR(WriteReport(flags, report));
  }
  return 0;
}

}  // namespace

Status CheckStepFlags(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags.selects));
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, selects));
  ASSIGN_OR_RETURN(
      const std::vector<BenchCell> cells,
      BenchCellsOf(StepLists(flags), /*native_selector=*/std::nullopt));
  if (OnGpu(flags)) return Ok{};
  if (cells.size() > 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--prompt and --batch are lists with --device cuda alone, "
                     "are \"{}\" and \"{}\"",
                     flags.prompts, flags.step_batches);
  }
  if (flags.selects != "dense") {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--select is for --device cuda (bench throughput measures "
                     "selections on the CPU), is \"{}\"",
                     flags.selects);
  }
  return Ok{};
}

Result<int> RunBenchStep(const BenchFlags& flags) {
  if (OnGpu(flags)) return RunOnGpu(flags);
  ASSIGN_OR_RETURN(
      const std::vector<BenchCell> cells,
      BenchCellsOf(StepLists(flags), /*native_selector=*/std::nullopt));
  return RunOnCpu(flags, cells.front());
}

}  // namespace winnow
