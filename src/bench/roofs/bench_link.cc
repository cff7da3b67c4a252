#include "bench/roofs/bench_link.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/size_text.h"
#include "bench/bench_cells.h"
#include "bench/roofs/roof.h"
#include "cache/host/host_pool.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"
#include "engine/schedule/restore_cost.h"

namespace winnow {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kPatience(60000);
// Copied in one go: long enough that its beginning and end do not count.
constexpr int64_t kCopiedBytes = int64_t{64} << 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Medians of the rounds; bytes a second.
struct LinkFigures {
  int64_t page_bytes = 0;
  double to_device = 0;
  double to_host = 0;
};

// Pages of either pool, and copies of all of them.
class LinkBench {
 public:
  static Result<LinkBench> Create(Backend& backend, const Model& model) {
    const ModelConfig& config = model.config();
    LayerBlockPoolOptions options = {
        .format = MakeHeadBlockFormat(model.dtypes().kv, config.head_dim,
                                      config.head_dim),
        .num_layers = config.num_layers,
        .num_kv_heads = config.num_kv_heads};
    const int64_t page_bytes =
        KvBlockBytes(options.format, options.num_layers, options.num_kv_heads);
    options.num_kv_blocks = std::max<int64_t>(1, kCopiedBytes / page_bytes);
    ASSIGN_OR_RETURN(LayerBlockPool pool,
                     LayerBlockPool::Create(backend, options));
    LinkBench bench(backend, std::make_unique<LayerBlockPool>(std::move(pool)));
    ASSIGN_OR_RETURN(
        bench.host_,
        HostPool::Create(backend, *bench.device_,
                         {.num_kv_blocks = options.num_kv_blocks}));
    return bench;
  }

  // All pages once. Returns bytes a second.
  Result<double> Copy(TierCopy::Direction direction) {
    std::vector<TierCopy> copies;
    for (int64_t i = 0; i < host_->num_kv_blocks(); ++i) {
      const KvBlockId page(static_cast<uint32_t>(i));
      copies.push_back({direction, page, page});
    }
    const Clock::time_point start = Clock::now();
    host_->Apply(*queue_, copies);
    RETURN_IF_ERROR(backend_->Wait(backend_->Record(*queue_), kPatience));
    return static_cast<double>(host_->num_kv_blocks() * page_bytes()) /
           SecondsSince(start);
  }
  int64_t page_bytes() const { return host_->kv_block_bytes(); }

 private:
  LinkBench(Backend& backend, std::unique_ptr<LayerBlockPool> device)
      : backend_(&backend),
        device_(std::move(device)),
        queue_(backend.MakeQueue()) {}

  Backend* backend_;
  std::unique_ptr<LayerBlockPool> device_;
  std::unique_ptr<HostPool> host_;
  std::unique_ptr<Queue> queue_;
};

Result<LinkFigures> MeasureLink(Backend& backend, const Model& model,
                                int rounds) {
  ASSIGN_OR_RETURN(LinkBench bench, LinkBench::Create(backend, model));
  std::vector<double> to_device, to_host;
  for (int round = -1; round < rounds; ++round) {
    ASSIGN_OR_RETURN(const double down,
                     bench.Copy(TierCopy::Direction::kToHost));
    ASSIGN_OR_RETURN(const double up,
                     bench.Copy(TierCopy::Direction::kToDevice));
    if (round < 0) continue;  // The first copies take the memory.
    to_host.push_back(down);
    to_device.push_back(up);
  }
  return LinkFigures{.page_bytes = bench.page_bytes(),
                     .to_device = Median(std::move(to_device)),
                     .to_host = Median(std::move(to_host))};
}

Result<std::vector<BenchCell>> LinkCells(const BenchFlags& flags) {
  return BenchCellsOf({.contexts_flag = "--prompt",
                       .contexts = flags.prompts,
                       .batches_flag = "",
                       .batches = "1",
                       .selects = "dense"},
                      /*native_selector=*/std::nullopt);
}

// With a pool on the host, so that the engine measures the link.
Result<EngineOptions> OptionsOf(const BenchFlags& flags, const Model& model,
                                const BenchCell& cell) {
  ASSIGN_OR_RETURN(EngineOptions options,
                   EngineOptionsOf(cell, flags.engine, model,
                                   MaxTokensOf(cell, flags.engine, 1)));
  options.host_kv_bytes = std::max(
      kCopiedBytes,
      kPageTokens * KvBytesPerToken(model.config(), model.dtypes().kv));
  options.restore_rates = std::nullopt;
  return options;
}

FarPages PagesOf(int64_t num_pages, int64_t page_bytes) {
  return {.host_bytes = num_pages * page_bytes,
          .first_token = 0,
          .num_tokens = static_cast<int>(num_pages) * kPageTokens};
}

// Of whole pages, up to the longest prompt of which the engine knows what it
// takes: from how many tokens on they are copied. Nothing where it knows of
// none, or would compute the longest.
std::optional<int> CopiedFrom(const RestoreRates& rates, int64_t page_bytes,
                              int longest) {
  std::optional<int> from;
  for (int64_t page = longest / kPageTokens; page > 0; --page) {
    const FarPages pages = PagesOf(page, page_bytes);
    const RestoreForecast forecast = Foretell(rates, pages);
    if (!forecast.copying_ms || !forecast.computing_ms) continue;
    if (!RestorePays(rates, pages)) break;
    from = pages.num_tokens;
  }
  return from;
}

struct PromptFigures {
  double prompt_ms = 0;  // the median of the rounds
  RestoreRates rates;    // that the engine has measured by then
};

// Prompts of a length, one after the other, alone in an engine.
Result<PromptFigures> MeasurePrompts(Backend& backend, const Model& model,
                                     const BenchFlags& flags,
                                     const BenchCell& cell) {
  ASSIGN_OR_RETURN(const EngineOptions options, OptionsOf(flags, model, cell));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(backend, model, options));
  std::vector<double> prompt_ms;
  for (int round = -1; round < flags.rounds; ++round) {
    CellRequests requests(*engine);
    const Clock::time_point start = Clock::now();
    RETURN_IF_ERROR(requests.Add(cell, MaxTokensOf(cell, flags.engine, 1),
                                 model.config().vocab_size, flags.engine.seed));
    RETURN_IF_ERROR(requests.StepUntilAllGenerate());
    if (round >= 0) prompt_ms.push_back(1e3 * SecondsSince(start));
  }
  return PromptFigures{.prompt_ms = Median(std::move(prompt_ms)),
                       .rates = engine->meter().restore_rates()};
}

Json JsonOf(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Result<Json> RowOf(Backend& backend, const Model& model,
                   const BenchFlags& flags, const BenchCell& cell,
                   int64_t page_bytes) {
  ASSIGN_OR_RETURN(const PromptFigures figures,
                   MeasurePrompts(backend, model, flags, cell));
  const auto& [prompt_ms, rates] = figures;
  const FarPages pages = PagesOf(PagesFor(cell.context_tokens), page_bytes);
  const RestoreForecast forecast = Foretell(rates, pages);
  const std::optional<int> copied_from =
      CopiedFrom(rates, page_bytes, pages.num_tokens);
  return Json{
      {"tokens", cell.context_tokens},
      {"prompt_ms", prompt_ms},
      {"prompt_tokens_per_second", cell.context_tokens / prompt_ms * 1e3},
      {"engine_link_gb_per_second", rates.link_bytes_per_second / 1e9},
      {"foretold_computing_ms", JsonOf(forecast.computing_ms)},
      {"foretold_copying_ms", JsonOf(forecast.copying_ms)},
      {"copied", RestorePays(rates, pages)},
      {"copied_from_tokens", copied_from ? Json(*copied_from) : Json()}};
}

void PrintLinkRow(const Json& row) {
  const auto ms = [&row](const char* name) {
    return row[name].is_null() ? std::string("unknown")
                               : fmt::format("{:.3f}", row[name].get<double>());
  };
  Print(fmt::format(
      "{:>8} {:>12} {:>12.0f} {:>12} {:>12} {:>9} {:>12}\n",
      row["tokens"].get<int>(), ms("prompt_ms"),
      row["prompt_tokens_per_second"].get<double>(),
      ms("foretold_computing_ms"), ms("foretold_copying_ms"),
      row["copied"].get<bool>() ? "copied" : "computed",
      row["copied_from_tokens"].is_null()
          ? "none"
          : fmt::format("{}", row["copied_from_tokens"].get<int>())));
}

void PrintLink(const LinkFigures& link) {
  const auto line = [&link](std::string_view name, double rate) {
    Print(fmt::format("{:<15} {:8.2f} GB/s, a page of {} in {:.1f} us\n", name,
                      rate / 1e9, FormatBytes(link.page_bytes),
                      1e6 * static_cast<double>(link.page_bytes) / rate));
  };
  line("host to device", link.to_device);
  line("device to host", link.to_host);
  Print(fmt::format("{:>8} {:>12} {:>12} {:>12} {:>12} {:>9} {:>12}\n",
                    "tokens", "prompt, ms", "tokens/s", "computing",
                    "copying, ms", "decision", "copied from"));
}

}  // namespace

Status CheckLinkFlags(const BenchFlags& flags) {
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, /*selects=*/{}));
  RETURN_IF_ERROR(LinkCells(flags));
  return Ok{};
}

Result<int> RunBenchLink(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   MakeBackend(flags.engine));
  ASSIGN_OR_RETURN(const Model model,
                   OpenModelOrShape(*backend, flags.engine, flags.shape));
  ASSIGN_OR_RETURN(const std::vector<BenchCell> cells, LinkCells(flags));
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(const EngineOptions options,
                     OptionsOf(flags, model, cell));
    RETURN_IF_ERROR(CheckCell(options, model, *backend));
  }
  ASSIGN_OR_RETURN(const LinkFigures link,
                   MeasureLink(*backend, model, flags.rounds));
  const bool prints = !flags.engine.json;
  if (prints) {
    Print(fmt::format("{}, {}\n", backend->attributes().description,
                      DtypeName(model.dtypes().compute)));
    PrintLink(link);
  }
  Json rows = Json::array();
  for (const BenchCell& cell : cells) {
    ASSIGN_OR_RETURN(Json row,
                     RowOf(*backend, model, flags, cell, link.page_bytes));
    if (prints) PrintLinkRow(row);
    rows.push_back(std::move(row));
    RETURN_IF_ERROR(CheckOutputIsRead());  // Others are minutes of work.
  }
  if (prints) return 0;
  const Json report = {{"model", ModelName(flags)},
                       {"device", backend->attributes().description},
                       {"dtype", DtypeName(model.dtypes().compute)},
                       {"rounds", flags.rounds},
                       {"page_bytes", link.page_bytes},
                       {"to_device_gb_per_second", link.to_device / 1e9},
                       {"to_host_gb_per_second", link.to_host / 1e9},
                       {"rows", std::move(rows)}};
  const int indent = flags.engine.json_file.empty() ? -1 : 2;
  RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
  return 0;
}

}  // namespace winnow
