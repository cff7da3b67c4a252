#include "bench/ops/bench_decode.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "bench/bench_cells.h"
#include "bench/bench_promptless.h"
#include "bench/ops/bench_decode_side.h"
#include "bench/random_tokens.h"
#include "bench/roofs/roof.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWarmUpSteps = 4;

// One command's work.
class DecodeBench {
 public:
  explicit DecodeBench(const BenchFlags& flags) : flags_(flags) {}

  Result<Json> Run();

 private:
  Status Open();
  // Requests that choose by number `selector` of `selects`; -1: dense ones.
  Result<std::unique_ptr<DecodeSide>> MakeSide(
      const std::vector<std::string>& selects, int selector);
  Result<Json> MeasurePair(const std::vector<std::string>& selects,
                           int selector);

  const BenchFlags& flags_;
  AttentionTimer* timer_ = nullptr;  // within backend_
  std::unique_ptr<PromptlessBackend> backend_;
  std::optional<Model> model_;
  std::vector<std::string> selects_;
  Request request_;
  BenchCell cell_;
};

Status DecodeBench::Open() {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> real,
                   MakeCpuBackendFor(flags_.engine));
  ASSIGN_OR_RETURN(Model model,
                   OpenModelOrShape(*real, flags_.engine, flags_.shape));
  model_.emplace(std::move(model));
  auto timer = std::make_unique<AttentionTimer>(std::move(real));
  timer_ = timer.get();
  ASSIGN_OR_RETURN(backend_, PromptlessBackend::Create(
                                 std::move(timer), *model_,
                                 flags_.engine.max_num_batched_tokens));
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags_.decode_selects));
  for (const std::string& select : selects) {
    ASSIGN_OR_RETURN(selects_.emplace_back(),
                     ResolveSelect(select, model_->config().native_selector));
  }
  ASSIGN_OR_RETURN(
      const std::vector<int> context,
      ParseCounts("--context", flags_.tiers_context, kMaxBenchContext));
  cell_ = {.select = "dense",
           .context_tokens = context.front(),
           .batch = flags_.tiers_batch};
  std::mt19937 random(static_cast<uint32_t>(flags_.engine.seed));
  request_.prompt =
      RandomTokens(context.front(), model_->config().vocab_size, random);
  request_.max_tokens =
      MaxTokensOf(cell_, flags_.engine,
                  kWarmUpSteps + flags_.rounds * flags_.generated_tokens);
  request_.sampling.temperature = 0;
  return Ok{};
}

Result<std::unique_ptr<DecodeSide>> DecodeBench::MakeSide(
    const std::vector<std::string>& selects, int selector) {
  ASSIGN_OR_RETURN(
      EngineOptions options,
      EngineOptionsOf(cell_, flags_.engine, *model_, request_.max_tokens));
  ASSIGN_OR_RETURN(options.selectors,
                   SelectorsOf(selects, model_->config().native_selector));
  Request request = request_;
  // A list of dense ones is empty.
  request.selector = options.selectors.empty() ? -1 : selector;
  backend_->LeaveOut();
  Result<std::unique_ptr<DecodeSide>> side = DecodeSide::Create(
      *backend_, *timer_, *model_, options, request, cell_.batch);
  backend_->Compute();
  if (side.ok()) RETURN_IF_ERROR((*side)->Step(kWarmUpSteps));
  return side;
}

Result<Json> DecodeBench::MeasurePair(const std::vector<std::string>& selects,
                                      int selector) {
  ASSIGN_OR_RETURN(const auto dense, MakeSide({}, -1));
  ASSIGN_OR_RETURN(const auto other, MakeSide(selects, selector));
  std::vector<double> steps, dense_steps, attentions, dense_attentions;
  std::vector<double> rates, attention_rates, amdahl_rates;
  for (int round = 0; round < flags_.rounds; ++round) {
    // Nobody always comes right behind the same one.
    DecodeSide* const order[] = {round % 2 == 0 ? dense.get() : other.get(),
                                 round % 2 == 0 ? other.get() : dense.get()};
    for (DecodeSide* side : order) {
      RETURN_IF_ERROR(side->TakeTurn(flags_.generated_tokens));
    }
    const DecodeTurn &of_dense = dense->turn(), &of_other = other->turn();
    steps.push_back(of_other.step_seconds);
    dense_steps.push_back(of_dense.step_seconds);
    attentions.push_back(of_other.attention_seconds);
    dense_attentions.push_back(of_dense.attention_seconds);
    rates.push_back(of_dense.step_seconds / of_other.step_seconds);
    attention_rates.push_back(of_dense.attention_seconds /
                              of_other.attention_seconds);
    amdahl_rates.push_back(AmdahlRate(of_dense, of_other.attention_seconds));
  }
  return Json{{"select", selector < 0 ? "dense" : selects[0]},
              {"step_ms", Median(steps) * 1e3},
              {"dense_step_ms", Median(dense_steps) * 1e3},
              {"attention_ms", Median(attentions) * 1e3},
              {"dense_attention_ms", Median(dense_attentions) * 1e3},
              {"rate_of_dense", Median(rates)},
              {"quartiles", Quartiles(rates)},
              {"attention_rate_of_dense", Median(attention_rates)},
              {"amdahl_rate_of_dense", Median(amdahl_rates)}};
}

Result<Json> DecodeBench::Run() {
  RETURN_IF_ERROR(Open());
  ASSIGN_OR_RETURN(Json row, MeasurePair(selects_, -1));
  row["beside"] = selects_;
  Json rows = Json::array({std::move(row)});
  for (const std::string& select : selects_) {
    ASSIGN_OR_RETURN(row, MeasurePair({select}, 0));
    rows.push_back(std::move(row));
  }
  return Json{{"model", ModelName(flags_)},
              {"device", backend_->attributes().description},
              {"dtype", DtypeName(model_->dtypes().compute)},
              {"context", cell_.context_tokens},
              {"batch", cell_.batch},
              {"rounds", flags_.rounds},
              {"steps_a_turn", flags_.generated_tokens},
              {"rows", std::move(rows)}};
}

void PrintDecodeReport(const Json& report) {
  Print(fmt::format("{}, {}\n{} requests of {} tokens, random K and V\n",
                    report["device"].get<std::string>(),
                    report["dtype"].get<std::string>(),
                    report["batch"].get<int>(), report["context"].get<int>()));
  Print(fmt::format("{:<44} {:>9} {:>10} {:>11} {:>12} {:>13}\n", "select",
                    "step, ms", "dense, ms", "/dense rate", "Amdahl's",
                    "attention's"));
  for (const Json& row : report["rows"]) {
    const std::string name =
        row.contains("beside")
            ? fmt::format("dense, beside {} others", row["beside"].size())
            : row["select"].get<std::string>();
    Print(fmt::format(
        "{:<44} {:>9.3f} {:>10.3f} {:>11.3f} {:>12.3f} "
        "{:>13.3f}\n",
        name, row["step_ms"].get<double>(), row["dense_step_ms"].get<double>(),
        row["rate_of_dense"].get<double>(),
        row["amdahl_rate_of_dense"].get<double>(),
        row["attention_rate_of_dense"].get<double>()));
  }
}

}  // namespace

Status CheckDecodeFlags(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<std::string> selects,
                   SplitSelects(flags.decode_selects));
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, selects));
  RETURN_IF_ERROR(
      ParseCounts("--context", flags.tiers_context, kMaxBenchContext));
  return Ok{};
}

Result<int> RunBenchDecode(const BenchFlags& flags) {
  DecodeBench bench(flags);
  ASSIGN_OR_RETURN(const Json report, bench.Run());
  if (!flags.engine.json) {
    PrintDecodeReport(report);
    return 0;
  }
  const int indent = flags.engine.json_file.empty() ? -1 : 2;
  RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
  return 0;
}

}  // namespace winnow
