#include "bench/bench_tiers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/direct_folder.h"
#include "bench/bench_cells.h"
#include "bench/bench_promptless.h"
#include "bench/bench_tiers_side.h"
#include "bench/ops/bench_fetch.h"
#include "bench/random_tokens.h"
#include "bench/roofs/bench_folder.h"
#include "bench/roofs/roof.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"
#include "cli/task/prompts.h"
#include "engine/residency/slot_capacity.h"
#include "engine/selection/slot_tokens.h"
#include "sparse/spec/selector.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLookupPicks = 2048;
constexpr int kLookupRuns = 8;  // a round
constexpr int kTiersWarmUpSteps = 4;
constexpr int kDiskWarmUpSteps = 64;  // where prompts are written to a disk

// One command's work.
class TiersBench {
 public:
  explicit TiersBench(const BenchFlags& flags)
      : flags_(flags), folder_(flags.kv_disk) {}

  Result<Json> Run();

 private:
  Status Open();
  Status ReadTokens();
  int NumWarmUpSteps() const {
    return flags_.kv_disk.empty() ? kTiersWarmUpSteps : kDiskWarmUpSteps;
  }
  Result<std::unique_ptr<DiskStore>> OpenDisk() const;
  Status AddSide(const Tiers& tiers);
  Status MeasureRound(int round);
  void CheckAnswers();
  Json RowOf(TiersSide& side);
  Json LookupRow();

  const BenchFlags& flags_;
  const BenchFolder folder_;
  TimedFetch* timed_ = nullptr;  // within backend_
  std::unique_ptr<PromptlessBackend> backend_;
  std::optional<Model> model_;
  Request request_;
  BenchCell cell_;
  int num_choosing_layers_ = 0;
  int slot_tokens_ = 0;  // as its requests have them
  std::vector<std::unique_ptr<TiersSide>> sides_;
  std::unique_ptr<BenchFetch> lookup_;
  std::vector<double> lookups_;  // seconds a layer, by round
};

Status TiersBench::Open() {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> real,
                   MakeCpuBackendFor(flags_.engine));
  ASSIGN_OR_RETURN(Model model,
                   OpenModelOrShape(*real, flags_.engine, flags_.shape));
  model_.emplace(std::move(model));
  auto timed = std::make_unique<TimedFetch>(std::move(real));
  timed_ = timed.get();
  ASSIGN_OR_RETURN(backend_, PromptlessBackend::Create(
                                 std::move(timed), *model_,
                                 flags_.engine.max_num_batched_tokens));
  ASSIGN_OR_RETURN(
      cell_.select,
      ResolveSelect(flags_.tiers_select, model_->config().native_selector));
  cell_.batch = flags_.tiers_batch;
  return ReadTokens();
}

Status TiersBench::ReadTokens() {
  if (flags_.prompt_file.empty()) {
    ASSIGN_OR_RETURN(
        const std::vector<int> context,
        ParseCounts("--context", flags_.tiers_context, kMaxBenchContext));
    std::mt19937 random(static_cast<uint32_t>(flags_.engine.seed));
    request_.prompt =
        RandomTokens(context.front(), model_->config().vocab_size, random);
  } else {
    ASSIGN_OR_RETURN(const PromptText text,
                     ReadPrompt({Prompt::Kind::kFile, flags_.prompt_file}));
    ASSIGN_OR_RETURN(const Tokenizer tokenizer,
                     Tokenizer::Load(flags_.engine.model));
    ASSIGN_OR_RETURN(request_.prompt,
                     EncodePrompt(text, flags_.engine.model, tokenizer));
  }
  cell_.context_tokens = static_cast<int>(request_.prompt.size());
  request_.max_tokens =
      MaxTokensOf(cell_, flags_.engine,
                  NumWarmUpSteps() + flags_.rounds * flags_.generated_tokens);
  request_.sampling.temperature = 0;
  request_.selector = 0;
  return Ok{};
}

Result<std::unique_ptr<DiskStore>> TiersBench::OpenDisk() const {
  const int64_t piece_bytes =
      kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  const int64_t num_pieces =
      int64_t{cell_.batch} * PagesFor(cell_.context_tokens);
  ASSIGN_OR_RETURN(std::unique_ptr<DirectFolder> folder,
                   DirectFolder::Open(folder_.path(), {}));
  return DiskStore::Open(
      std::move(folder),
      {.header = {.made_with = {{"by", "winnow bench tiers"}},
                  .piece_bytes = piece_bytes},
       .max_bytes = num_pieces * DiskSlotLayout(piece_bytes).slot_bytes});
}

Status TiersBench::AddSide(const Tiers& tiers) {
  ASSIGN_OR_RETURN(
      EngineOptions options,
      EngineOptionsOf(cell_, flags_.engine, *model_, request_.max_tokens));
  if (tiers.has_host) {
    EngineFlags engine = flags_.engine;
    engine.host_kv = fmt::format("{}B", options.device_kv_bytes);
    engine.cache_budget = tiers.cache_budget;
    ASSIGN_OR_RETURN(const EngineOptions with_host, ParseEngineOptions(engine));
    options.host_kv_bytes = with_host.host_kv_bytes;
    options.cache_budget = with_host.cache_budget;
    options.hints = tiers.hints;
  }
  std::unique_ptr<DiskStore> disk;
  if (tiers.has_disk) {
    ASSIGN_OR_RETURN(disk, OpenDisk());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<TiersSide> side,
                   TiersSide::Create(*backend_, *timed_, *model_, options,
                                     tiers, std::move(disk)));
  RETURN_IF_ERROR(side->requests().Add(request_, cell_.batch));
  if (flags_.prompt_file.empty()) backend_->LeaveOut();
  const Status read = side->requests().StepUntilAllGenerate();
  backend_->Compute();
  RETURN_IF_ERROR(read);
  RETURN_IF_ERROR(side->WarmUp(NumWarmUpSteps()));
  sides_.push_back(std::move(side));
  return Ok{};
}

// Nobody always comes right behind the same one.
Status TiersBench::MeasureRound(int round) {
  const size_t count = sides_.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t turn = round % 2 == 0 ? i : count - 1 - i;
    const size_t index = (turn + static_cast<size_t>(round) / 2) % count;
    RETURN_IF_ERROR(sides_[index]->TakeTurn(flags_.generated_tokens));
  }
  std::vector<double> runs;
  for (int i = 0; i < kLookupRuns; ++i) {
    runs.push_back(SecondsOf([&] { lookup_->Run(); }));
  }
  lookups_.push_back(Median(std::move(runs)));
  return Ok{};
}

// Bits never depend on what is near.
void TiersBench::CheckAnswers() {
  for (const auto& side : sides_) {
    for (size_t i = 0; i < static_cast<size_t>(cell_.batch); ++i) {
      CHECK(side->requests().tokens(i) == sides_[0]->requests().tokens(i),
            "request={} draws other tokens where tiers are \"{}\"", i,
            side->tiers().name);
    }
  }
}

Json TiersBench::RowOf(TiersSide& side) {
  std::vector<double> steps, ratios, fetch_shares;
  for (size_t i = 0; i < side.turns().size(); ++i) {
    const auto& [step, fetch] = side.turns()[i];
    steps.push_back(step);
    ratios.push_back(sides_[0]->turns()[i].step_seconds / step);
    fetch_shares.push_back(fetch / step);
  }
  Json row = {{"tiers", side.tiers().name},
              {"step_ms", Median(steps) * 1e3},
              {"rate_of_resident", Median(ratios)},
              {"quartiles", Quartiles(ratios)}};
  if (side.tiers().cache_budget.empty()) return row;
  KvCounters sum;
  for (const KvCounters& kv : side.requests().End()) {
    sum.picks += kv.picks;
    sum.misses += kv.misses;
    sum.hints += kv.hints;
    sum.fetched_bytes += kv.fetched_bytes;
    sum.num_decode_rows += kv.num_decode_rows;
  }
  const auto a_row =
      [rows = static_cast<double>(std::max<int64_t>(1, sum.num_decode_rows))](
          int64_t count) { return static_cast<double>(count) / rows; };
  row["picks_a_row"] = a_row(sum.picks);
  row["misses_a_row"] = a_row(sum.misses);
  row["hints_a_row"] = a_row(sum.hints);
  row["fetched_bytes_a_row"] = a_row(sum.fetched_bytes);
  row["bring_share_of_step"] = Median(fetch_shares);
  return row;
}

Json TiersBench::LookupRow() {
  std::vector<double> shares;
  for (size_t i = 0; i < lookups_.size(); ++i) {
    shares.push_back(lookups_[i] * num_choosing_layers_ /
                     sides_[0]->turns()[i].step_seconds);
  }
  return {
      {"picks_a_request", kLookupPicks}, {"slot_tokens", slot_tokens_},
      {"layers", num_choosing_layers_},  {"us_a_layer", Median(lookups_) * 1e6},
      {"share_of_step", Median(shares)}, {"quartiles", Quartiles(shares)}};
}

Result<Json> TiersBench::Run() {
  RETURN_IF_ERROR(Open());
  ASSIGN_OR_RETURN(const std::vector<Tiers> tiers, TiersOf(flags_));
  const ModelConfig& config = model_->config();
  ASSIGN_OR_RETURN(
      const Selector selector,
      MakeSelector(cell_.select, SelectorShapeOf(*model_, kMaxBenchContext)));
  num_choosing_layers_ =
      static_cast<int>(std::ranges::count(selector.dense, false));
  slot_tokens_ = SlotTokensOf(selector).value_or(kPageTokens);
  for (const Tiers& each : tiers) RETURN_IF_ERROR(AddSide(each));
  ASSIGN_OR_RETURN(lookup_, BenchFetch::Create(
                                *backend_, {.num_kv_heads = config.num_kv_heads,
                                            .head_dim = config.head_dim,
                                            .kv_dtype = model_->dtypes().kv,
                                            .num_requests = cell_.batch,
                                            .picks_a_request = kLookupPicks,
                                            .slot_tokens = slot_tokens_}));
  for (int round = 0; round < flags_.rounds; ++round) {
    RETURN_IF_ERROR(MeasureRound(round));
  }
  CheckAnswers();
  Json rows = Json::array();
  for (const auto& side : sides_) rows.push_back(RowOf(*side));
  return Json{{"model", ModelName(flags_)},
              {"device", backend_->attributes().description},
              {"dtype", DtypeName(model_->dtypes().compute)},
              {"select", cell_.select},
              {"context", cell_.context_tokens},
              {"random_kv", flags_.prompt_file.empty()},
              {"batch", cell_.batch},
              {"rounds", flags_.rounds},
              {"steps_a_turn", flags_.generated_tokens},
              {"rows", std::move(rows)},
              {"lookup", LookupRow()}};
}

void PrintTiersReport(const Json& report) {
  Print(fmt::format("{}, {}\n{} requests of {} tokens, {}\n",
                    report["device"].get<std::string>(),
                    report["dtype"].get<std::string>(),
                    report["batch"].get<int>(), report["context"].get<int>(),
                    report["select"].get<std::string>()));
  Print(fmt::format("{:<24} {:>9} {:>14} {:>11} {:>12} {:>11} {:>10}\n",
                    "tiers", "step, ms", "/resident rate", "picks a row",
                    "misses a row", "hints a row", "Fetch/step"));
  for (const Json& row : report["rows"]) {
    std::string line = fmt::format(
        "{:<24} {:>9.3f} {:>14.3f}", row["tiers"].get<std::string>(),
        row["step_ms"].get<double>(), row["rate_of_resident"].get<double>());
    if (row.contains("picks_a_row")) {
      line += fmt::format(" {:>11.1f} {:>12.1f} {:>11.1f} {:>10.4f}",
                          row["picks_a_row"].get<double>(),
                          row["misses_a_row"].get<double>(),
                          row["hints_a_row"].get<double>(),
                          row["bring_share_of_step"].get<double>());
    }
    Print(line + "\n");
  }
  const Json& lookup = report["lookup"];
  Print(fmt::format(
      "lookup of {} picks a request: {:.1f} us a layer, {:.4f} of the step\n",
      lookup["picks_a_request"].get<int>(), lookup["us_a_layer"].get<double>(),
      lookup["share_of_step"].get<double>()));
}

}  // namespace

Status CheckTiersFlags(const BenchFlags& flags) {
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, {flags.tiers_select}));
  RETURN_IF_ERROR(TiersOf(flags));
  RETURN_IF_ERROR(
      ParseCounts("--context", flags.tiers_context, kMaxBenchContext));
  if (flags.prompt_file.empty() || flags.shape.empty()) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument,
                   "--prompt-file needs a checkpoint's tokenizer; --shape has "
                   "none");
}

Result<int> RunBenchTiers(const BenchFlags& flags) {
  TiersBench bench(flags);
  ASSIGN_OR_RETURN(const Json report, bench.Run());
  if (!flags.engine.json) {
    PrintTiersReport(report);
    return 0;
  }
  const int indent = flags.engine.json_file.empty() ? -1 : 2;
  RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
  return 0;
}

}  // namespace winnow
