#include "bench/ops/bench_ops.h"

#include <nlohmann/json.hpp>

#include "bench/ops/bench_attention.h"
#include "bench/ops/bench_device_ops.h"
#include "bench/ops/bench_fetch.h"
#include "bench/ops/bench_products.h"
#include "bench/ops/bench_sparse_rows.h"
#include "bench/roofs/roof.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"

namespace winnow {
namespace {

constexpr int64_t kChunkRows = 2048;
constexpr int64_t kManyRows = 512;
// A decode Attend goes round as many layers as make this much KV at least.
constexpr int64_t kDecodeKvBytes = int64_t{1} << 30;
// Pairs of an Attend and a plain read, at least.
constexpr int kLeastPairs = 15;

// What an op is measured against, round by round, right before it runs: a
// plain read, the roof of what is bound by memory; and the products of many
// rows, what the library reaches where arithmetic is the bound.
class Roofs {
 public:
  static Result<Roofs> Create(Backend& backend, const Model& model,
                              ThreadPool& pool) {
    ASSIGN_OR_RETURN(ReadRoof read, ReadRoof::Create(pool));
    ASSIGN_OR_RETURN(BenchProducts products,
                     BenchProducts::Create(backend, model, kManyRows));
    Roofs roofs(pool, std::move(read), std::move(products));
    roofs.products_.Run();  // To warm up.
    roofs.MeasureProducts();
    return roofs;
  }

  void MeasureRead() { gb_per_second_ = read_.BytesPerSecond() / 1e9; }
  void MeasureProducts() {
    gflops_ = products_.flops() / SecondsOf([&] { products_.Run(); }) / 1e9;
  }
  double gb_per_second() const { return gb_per_second_; }
  double gflops() const { return gflops_; }
  ThreadPool& pool() const { return *pool_; }

 private:
  Roofs(ThreadPool& pool, ReadRoof read, BenchProducts products)
      : pool_(&pool), read_(std::move(read)), products_(std::move(products)) {}

  ThreadPool* pool_;
  ReadRoof read_;
  BenchProducts products_;
  double gb_per_second_ = 0;
  double gflops_ = 0;
};

// An op, what it must move and compute, and what limits it.
struct Case {
  std::string op;
  double bytes = 0;
  double flops = 0;
  bool product_bound = false;
  int runs_a_round = 1;
  std::function<void()> run;
  // Bytes a second of a plain read of such bytes as `run` reads, and has not
  // read lately; or empty.
  std::function<double()> read_plainly;
};

// Medians over the rounds; the shares are of each round's own roofs.
nlohmann::ordered_json MeasureRow(const Case& op, int num_rounds,
                                  Roofs& roofs) {
  std::vector<double> seconds, read_shares, product_shares, paired_shares;
  op.run();  // To warm up.
  for (int round = 0; round < num_rounds; ++round) {
    roofs.MeasureRead();
    if (op.product_bound) roofs.MeasureProducts();
    std::vector<double> runs;
    for (int run = 0; run < op.runs_a_round; ++run) {
      // The plain read's workers are others: those of the op sleep by now.
      if (op.read_plainly) op.run();
      runs.push_back(SecondsOf(op.run));
      if (!op.read_plainly) continue;
      paired_shares.push_back(op.bytes / runs.back() / op.read_plainly());
    }
    const double once = Median(std::move(runs));
    seconds.push_back(once);
    read_shares.push_back(op.bytes / once / 1e9 / roofs.gb_per_second());
    product_shares.push_back(op.flops / once / 1e9 / roofs.gflops());
  }
  const double median = Median(std::move(seconds));
  nlohmann::ordered_json row = {
      {"verb", op.op},
      {"ms", median * 1e3},
      {"gb_per_second", op.bytes / median / 1e9},
      {"gflops", op.flops / median / 1e9},
      {"share_of_read_roof", Median(std::move(read_shares))},
      {"share_of_product_roof", Median(std::move(product_shares))}};
  if (!paired_shares.empty()) {
    row["share_of_paired_read"] = Median(std::move(paired_shares));
  }
  return row;
}

Result<nlohmann::ordered_json> ProductRow(Backend& backend, const Model& model,
                                          int64_t num_rows, int num_rounds,
                                          Roofs& roofs) {
  ASSIGN_OR_RETURN(BenchProducts products,
                   BenchProducts::Create(backend, model, num_rows));
  const WeightMatrix& head = model.weights().lm_head;
  const int64_t head_bytes = head.num_bytes();
  Case op;
  op.op = fmt::format("Linear, all layers, {} rows", num_rows);
  op.bytes = static_cast<double>(ProductBytes(model) - head_bytes);
  op.flops = products.flops();
  op.product_bound = num_rows >= 64;
  op.run = [&] { products.Run(); };
  return MeasureRow(op, num_rounds, roofs);
}

Result<nlohmann::ordered_json> ReadRow(Backend& backend, const Model& model,
                                       const BenchAttention::Shape& shape,
                                       int num_rounds, Roofs& roofs) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchAttention> attention,
                   BenchAttention::Create(backend, model, shape));
  Case op;
  op.op = fmt::format("Attend, {}, {} tokens, head_dim {}{}",
                      shape.prefill_rows ? "prompt" : "decode",
                      shape.context_tokens, shape.head_dim,
                      shape.shuffled_pages ? ", shuffled" : "");
  op.bytes = attention->kv_bytes();
  op.flops = attention->flops();
  op.product_bound = shape.prefill_rows;
  op.run = [&] { attention->Run(kChunkRows); };
  if (!shape.prefill_rows) {
    op.runs_a_round = std::max(shape.num_layers, kLeastPairs);
    op.read_plainly = [&] {
      const Bytes kv = attention->NextLayerKv();
      return PlainRead(roofs.pool(), {&kv, 1}).BytesPerSecond();
    };
  }
  return MeasureRow(op, num_rounds, roofs);
}

// A lookup of many picks that are all near: what tiers cost where they work.
Result<nlohmann::ordered_json> FetchRow(Backend& backend, const Model& model,
                                        int num_rounds, Roofs& roofs) {
  constexpr int kRequests = 16, kPicks = 2048, kRunsARound = 32;
  ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchFetch> fetch,
      BenchFetch::Create(backend, {.num_kv_heads = model.config().num_kv_heads,
                                   .head_dim = model.config().head_dim,
                                   .kv_dtype = model.dtypes().kv,
                                   .num_requests = kRequests,
                                   .picks_a_request = kPicks}));
  Case op;
  op.op =
      fmt::format("Fetch, {} requests, {} picks, no miss", kRequests, kPicks);
  op.bytes = fetch->bytes();
  op.runs_a_round = kRunsARound;
  op.run = [&] { fetch->Run(); };
  return MeasureRow(op, num_rounds, roofs);
}

void PrintTable(const nlohmann::ordered_json& rows) {
  Print(fmt::format("{:<40} {:>10} {:>10} {:>8} {:>10} {:>10} {:>12} {:>13}\n",
                    "verb", "ms", "cached ms", "GB/s", "GFLOP/s", "/read roof",
                    "/paired read", "/product roof"));
  const auto number_if_any = [](const nlohmann::ordered_json& row,
                                std::string_view key, int digits) {
    return row.contains(key)
               ? fmt::format("{:.{}f}", row[key].get<double>(), digits)
               : std::string("-");
  };
  for (const auto& row : rows) {
    Print(fmt::format(
        "{:<40} {:>10.3f} {:>10} {:>8.1f} {:>10.1f} {:>10.2f} {:>12} "
        "{:>13.2f}\n",
        row["verb"].get<std::string>(), row["ms"].get<double>(),
        number_if_any(row, "cached_ms", 3), row["gb_per_second"].get<double>(),
        row["gflops"].get<double>(), row["share_of_read_roof"].get<double>(),
        number_if_any(row, "share_of_paired_read", 2),
        row["share_of_product_roof"].get<double>()));
  }
}

// Attention at the model's numbers of heads and at both usual sizes of one:
// the decode of a long context, whose pages lie in order or anywhere, and a
// whole prompt.
std::vector<BenchAttention::Shape> AttentionShapes(const ModelConfig& config,
                                                   Dtype kv_dtype,
                                                   const BenchFlags& flags) {
  std::vector<BenchAttention::Shape> shapes;
  for (const int head_dim : {64, 128}) {
    const int64_t layer_bytes = int64_t{flags.decode_context_tokens} * 2 *
                                config.num_kv_heads * head_dim *
                                DtypeBytes(kv_dtype);
    BenchAttention::Shape decode = {
        .context_tokens = flags.decode_context_tokens,
        .first_position = flags.decode_context_tokens - 1,
        .head_dim = head_dim,
        .num_layers =
            static_cast<int>(std::max(kDecodeKvBytes, UncachedBytes()) /
                             layer_bytes) +
            1};
    shapes.push_back(decode);
    decode.shuffled_pages = true;
    shapes.push_back(decode);
    shapes.push_back({.context_tokens = flags.prompt_context_tokens,
                      .first_position = 0,
                      .prefill_rows = true,
                      .head_dim = head_dim});
  }
  return shapes;
}

Result<nlohmann::ordered_json> MeasureOnGpu(Backend& backend,
                                            const Model& model,
                                            const BenchFlags& flags) {
  DeviceOpsOptions options;
  options.rounds = flags.rounds;
  options.decode_context = flags.decode_context_tokens;
  options.prompt_context = flags.prompt_context_tokens;
  options.layouts = flags.layouts;
  if (!flags.engine.json) {
    Print(fmt::format("{}, {}\n{}", backend.attributes().description,
                      DtypeName(model.dtypes().compute), DeviceOpsHeader()));
    options.on_row = [](const nlohmann::ordered_json& row) {
      Print(DeviceOpsLine(row));
      return CheckOutputIsRead();  // Others are minutes of work.
    };
  }
  ASSIGN_OR_RETURN(nlohmann::ordered_json measured,
                   MeasureDeviceOps(backend, model, options));
  nlohmann::ordered_json report = {{"model", ModelName(flags)},
                                   {"device", backend.attributes().description},
                                   {"rounds", flags.rounds}};
  report.update(measured);
  return report;
}

Result<nlohmann::ordered_json> MeasureAll(Backend& backend, const Model& model,
                                          const BenchFlags& flags) {
  ThreadPool pool(flags.engine.threads);
  ASSIGN_OR_RETURN(Roofs roofs, Roofs::Create(backend, model, pool));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const int64_t num_rows : {1, 2, 4, 8, 16, 64, 512}) {
    ASSIGN_OR_RETURN(auto row,
                     ProductRow(backend, model, num_rows, flags.rounds, roofs));
    rows.push_back(std::move(row));
  }
  for (const BenchAttention::Shape& shape :
       AttentionShapes(model.config(), model.dtypes().kv, flags)) {
    ASSIGN_OR_RETURN(auto row,
                     ReadRow(backend, model, shape, flags.rounds, roofs));
    rows.push_back(std::move(row));
  }
  ASSIGN_OR_RETURN(auto fetch, FetchRow(backend, model, flags.rounds, roofs));
  rows.push_back(std::move(fetch));
  RETURN_IF_ERROR(AddSparseRows(backend,
                                {.num_q_heads = model.config().num_q_heads,
                                 .num_kv_heads = model.config().num_kv_heads,
                                 .head_dim = model.config().head_dim,
                                 .dtypes = model.dtypes(),
                                 .context_tokens = flags.decode_context_tokens},
                                flags.rounds,
                                {.pool = pool,
                                 .read_gb_per_second =
                                     [&] {
                                       roofs.MeasureRead();
                                       return roofs.gb_per_second();
                                     },
                                 .product_gflops =
                                     [&] {
                                       roofs.MeasureProducts();
                                       return roofs.gflops();
                                     }},
                                rows));
  return nlohmann::ordered_json{
      {"model", ModelName(flags)},
      {"device", backend.attributes().description},
      {"rounds", flags.rounds},
      {"read_roof_gb_per_second", roofs.gb_per_second()},
      {"product_roof_gflops", roofs.gflops()},
      {"verbs", std::move(rows)}};
}

}  // namespace

Result<int> RunBenchOps(const BenchFlags& flags) {
  const bool on_gpu = flags.engine.device.starts_with("cuda");
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Backend> backend,
      on_gpu ? MakeBackend(flags.engine) : MakeCpuBackendFor(flags.engine));
  ASSIGN_OR_RETURN(const Model model,
                   OpenModelOrShape(*backend, flags.engine, flags.shape));
  ASSIGN_OR_RETURN(const nlohmann::ordered_json report,
                   on_gpu ? MeasureOnGpu(*backend, model, flags)
                          : MeasureAll(*backend, model, flags));
  if (!flags.engine.json && on_gpu) {
    Print(DeviceOpsRoofs(report));
  } else if (!flags.engine.json) {
    Print(
        fmt::format("{}: read roof {:.1f} GB/s, product roof {:.0f} GFLOP/s\n",
                    report["device"].get<std::string>(),
                    report["read_roof_gb_per_second"].get<double>(),
                    report["product_roof_gflops"].get<double>()));
    PrintTable(report["verbs"]);
  } else {
    // A file is for people to read, too.
    const int indent = flags.engine.json_file.empty() ? -1 : 2;
    RETURN_IF_ERROR(WriteJson(flags.engine, report.dump(indent) + "\n"));
  }
  return 0;
}

}  // namespace winnow
