#include "bench/ops/bench_device_ops.h"

#include <algorithm>

#include "base/size_text.h"
#include "bench/bench_requests.h"
#include "bench/ops/bench_selector_ops.h"
#include "bench/ops/device_op_rows.h"
#include "bench/ops/op_requests.h"
#include "bench/roofs/roof.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;
using Product = BenchLayerProducts::Product;

// A selector, by the name of its rows.
struct Chooser {
  std::string name, spec;
};

// Where KV and summaries lie, by what its rows' names end with.
struct Layout {
  std::string_view name;
  BenchRequests::PoolOrder pool_order = BenchRequests::PoolOrder::kLayerMajor;
  BenchRequests::ValuePlace value_place =
      BenchRequests::ValuePlace::kBehindKeys;
  BenchRequests::SummaryPlace summary_place =
      BenchRequests::SummaryPlace::kSegments;
  int least_layers = 1;
};
constexpr Layout kEngineLayout = {};

class OpsBench {
 public:
  OpsBench(Backend& backend, const Model& model,
           const DeviceOpsOptions& options, DeviceOpRows& rows)
      : backend_(backend), model_(model), options_(options), rows_(rows) {}

  Status AddProducts(int64_t rows);
  Status AddDenseRead(int batch, int64_t context,
                      const Layout& layout = kEngineLayout);
  Status AddPromptRead(int64_t context);
  Status AddSelector(const Chooser& chooser, int batch, int64_t context,
                     const Layout& layout = kEngineLayout);
  Status AddSparseRead(const Chooser& chooser, int batch, int64_t context);
  Status AddAppend();
  Status AddRowOps(int64_t rows);
  Status AddSample(int rows, const SamplingRow& sampling,
                   std::string_view name);

 private:
  BenchRequests::Shape ShapeOf(int batch, int64_t context,
                               const Layout& layout = kEngineLayout) const;

  Backend& backend_;
  const Model& model_;
  const DeviceOpsOptions& options_;
  DeviceOpRows& rows_;
  const OpRequests requests_{backend_, model_, options_};
};

Status OpsBench::AddProducts(int64_t rows) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchLayerProducts> bench,
                   BenchLayerProducts::Create(backend_, model_, rows));
  const int layers = model_.config().num_layers;
  constexpr Product kOfLayer[] = {Product::kQkv, Product::kOutput,
                                  Product::kGateUp, Product::kDown};
  // Where arithmetic is the bound.
  const bool many = rows >= 512;
  DeviceOp all;
  all.name = fmt::format("Linear, all of a layer, {} rows", rows);
  all.product_bound = many;
  all.calls = layers;
  all.recorded = !many;
  all.queue = &bench->queue();
  all.run = [&](int layer) {
    for (const Product product : kOfLayer) bench->Run(product, layer);
  };
  for (const Product product : kOfLayer) {
    DeviceOp one = all;
    one.name = fmt::format("Linear, {}, {} rows",
                           BenchLayerProducts::Name(product), rows);
    one.bytes = bench->bytes(product);
    one.flops = bench->flops(product);
    one.run = [&](int layer) { bench->Run(product, layer); };
    all.bytes += one.bytes;
    all.flops += one.flops;
    RETURN_IF_ERROR(rows_.Add(one));
  }
  RETURN_IF_ERROR(rows_.Add(all));
  if (many) return Ok{};
  DeviceOp logits = all;
  logits.name = fmt::format("Linear, {}, {} rows",
                            BenchLayerProducts::Name(Product::kLogits), rows);
  logits.bytes = bench->bytes(Product::kLogits);
  logits.flops = bench->flops(Product::kLogits);
  logits.calls = 2;
  logits.run = [&](int) { bench->Run(Product::kLogits, 0); };
  return rows_.Add(logits);
}

BenchRequests::Shape OpsBench::ShapeOf(int batch, int64_t context,
                                       const Layout& layout) const {
  BenchRequests::Shape shape = requests_.ShapeOf(batch, context);
  shape.pool_order = layout.pool_order;
  shape.value_place = layout.value_place;
  shape.summary_place = layout.summary_place;
  return shape;
}

Status OpsBench::AddDenseRead(int batch, int64_t context,
                              const Layout& layout) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRequests> bench,
                   requests_.Make(ShapeOf(batch, context, layout), 1.0,
                                  layout.least_layers));
  const int layers = bench->shape().num_layers;
  DeviceOp op;
  op.name = fmt::format("Attend, decode, {} tokens x {}{}", context,
                        bench->shape().batch, layout.name);
  op.bytes = bench->kv_bytes();
  op.flops = bench->read_flops();
  op.calls = OpRequests::CallsOver(layers);
  op.queue = &bench->queue();
  op.run = [&](int call) { bench->ReadEverything(call % layers); };
  return rows_.Add(op);
}

Status OpsBench::AddPromptRead(int64_t context) {
  BenchRequests::Shape shape = ShapeOf(1, context);
  shape.prefill_rows = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRequests> bench,
                   BenchRequests::Create(backend_, shape));
  DeviceOp op;
  op.name = fmt::format("Attend, prompt, {} tokens, head_dim {}", context,
                        shape.head_dim);
  op.bytes = bench->kv_bytes();
  op.flops = bench->read_flops();
  op.product_bound = true;
  op.recorded = false;
  op.calls = 4;
  op.queue = &bench->queue();
  op.run = [&](int) { bench->ReadEverything(0); };
  return rows_.Add(op);
}

Status OpsBench::AddSelector(const Chooser& chooser, int batch, int64_t context,
                             const Layout& layout) {
  BenchRequests::Shape shape = ShapeOf(batch, context, layout);
  shape.select = chooser.spec;
  // A summary is a thirty-second of a page's K and V, or a few of these.
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRequests> bench,
                   requests_.Make(shape, 1.0 / 64, layout.least_layers));
  const int layers = bench->shape().num_layers;
  const std::string of =
      fmt::format("{}, {} tokens x {}{}", chooser.name, context,
                  bench->shape().batch, layout.name);
  DeviceOp select;
  select.name = "Select, " + of;
  select.bytes = bench->summary_bytes();
  select.flops = bench->select_flops();
  select.calls = OpRequests::CallsOver(layers);
  select.queue = &bench->queue();
  select.run = [&](int call) { bench->Select(call % layers); };
  RETURN_IF_ERROR(rows_.Add(select));
  RETURN_IF_ERROR(rows_.AddLaunches(select));
  DeviceOp read = select;
  read.name = "Attend, picks of " + of;
  read.flops = 0;
  ASSIGN_OR_RETURN(read.bytes, bench->PickedBytes());
  read.run = [&](int call) { bench->ReadPicks(call % layers); };
  return rows_.Add(read);
}

Status OpsBench::AddSparseRead(const Chooser& chooser, int batch,
                               int64_t context) {
  BenchRequests::Shape shape = ShapeOf(batch, context);
  shape.select = chooser.spec;
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRequests> bench,
                   requests_.Make(shape, 1.0));
  const int layers = bench->shape().num_layers;
  // Each layer would have lists of its own; these read other layers' pages by
  // the last one's, which is as much.
  bench->Select(0);
  DeviceOp read;
  ASSIGN_OR_RETURN(read.bytes, bench->PickedBytes());
  read.name = fmt::format("Attend, picks of {}, {} tokens x {}", chooser.name,
                          context, bench->shape().batch);
  read.calls = OpRequests::CallsOver(layers);
  read.queue = &bench->queue();
  read.run = [&](int call) { bench->ReadPicks(call % layers); };
  return rows_.Add(read);
}

Status OpsBench::AddAppend() {
  BenchRequests::Shape shape = ShapeOf(kDecodeBatch, 1024);
  shape.select = "mean:budget=512";
  shape.num_layers = kLeastCalls;
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRequests> decode,
                   BenchRequests::Create(backend_, shape));
  DeviceOp op;
  op.name = fmt::format("Append, {} rows", kDecodeBatch);
  op.bytes = decode->append_bytes();
  op.calls = kLeastCalls;
  op.queue = &decode->queue();
  op.run = [&](int layer) { decode->Append(layer); };
  RETURN_IF_ERROR(rows_.Add(op));
  op.name = fmt::format("Append + Summarize, mean, {} rows", kDecodeBatch);
  op.bytes += decode->summarized_bytes();
  op.run = [&](int layer) {
    decode->Append(layer);
    decode->Summarize(layer);
  };
  RETURN_IF_ERROR(rows_.Add(op));
  shape = ShapeOf(1, options_.chunk_rows);
  shape.prefill_rows = true;
  shape.num_layers = kLeastCalls;
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchRequests> prompt,
                   BenchRequests::Create(backend_, shape));
  op.name = fmt::format("Append, {} rows", options_.chunk_rows);
  op.bytes = prompt->append_bytes();
  op.queue = &prompt->queue();
  op.run = [&](int layer) { prompt->Append(layer); };
  return rows_.Add(op);
}

Status OpsBench::AddRowOps(int64_t rows) {
  const ModelConfig& config = model_.config();
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchLayerProducts> bench,
                   BenchLayerProducts::Create(backend_, model_, rows));
  DeviceOp op;
  op.name = fmt::format("RmsNorm, {} rows", rows);
  op.bytes = bench->rms_norm_bytes();
  op.calls = config.num_layers;
  op.queue = &bench->queue();
  op.run = [&](int layer) { bench->RmsNorm(layer); };
  RETURN_IF_ERROR(rows_.Add(op));
  op.name = fmt::format("GatedAct, {} rows", rows);
  op.bytes = bench->gated_act_bytes();
  op.run = [&](int) { bench->GatedAct(); };
  RETURN_IF_ERROR(rows_.Add(op));
  BenchMemory memory(backend_);
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < rows; ++row) {
    ids.push_back(static_cast<int32_t>(row * 7919 % config.vocab_size));
  }
  EmbedArgs embed;
  ASSIGN_OR_RETURN(embed.token_ids, memory.TakeIntegers(ids));
  embed.table = model_.weights().embedding;
  ASSIGN_OR_RETURN(embed.out,
                   memory.Take(Dtype::kFloat32, {rows, config.hidden_size}));
  op.name = fmt::format("Embed, {} rows", rows);
  op.bytes = static_cast<double>(embed.out.num_elements()) *
             (4 + DtypeBytes(embed.table.dtype));
  op.calls = kLeastCalls;
  op.queue = &memory.queue();
  op.run = [&](int) { backend_.Embed(memory.queue(), embed); };
  return rows_.Add(op);
}

// The logits are overwritten by each draw: it is timed with a copy of them
// before it, which is then taken off, launch by launch.
Status OpsBench::AddSample(int rows, const SamplingRow& sampling,
                           std::string_view name) {
  const int64_t vocab = model_.config().vocab_size;
  BenchMemory memory(backend_);
  const std::vector<SamplingRow> settings(static_cast<size_t>(rows), sampling);
  ASSIGN_OR_RETURN(const View on_device,
                   memory.TakeBytes(std::as_bytes(std::span(settings))));
  ASSIGN_OR_RETURN(const View logits,
                   memory.TakeRandom(Dtype::kFloat32, {rows, vocab}));
  SampleArgs args;
  ASSIGN_OR_RETURN(args.logits, memory.Take(Dtype::kFloat32, {rows, vocab}));
  args.rows = reinterpret_cast<const SamplingRow*>(on_device.data);
  ASSIGN_OR_RETURN(args.token_ids, memory.Take(Dtype::kInt32, {rows}));
  ASSIGN_OR_RETURN(args.logprobs, memory.Take(Dtype::kFloat32, {rows}));
  std::vector<double> all;
  for (int round = 0; round < rows_.rounds() * 2; ++round) {
    ASSIGN_OR_RETURN(const std::vector<LaunchTime> times,
                     backend_.Profile(memory.queue(), [&] {
                       backend_.Copy(memory.queue(), logits, args.logits);
                       backend_.Sample(memory.queue(), args);
                     }));
    // The first are to warm up.
    if (round >= rows_.rounds()) all.push_back(times.back().seconds);
  }
  DeviceOp op;
  op.name = fmt::format("Sample, {}, {} rows (a launch alone)", name, rows);
  op.bytes = static_cast<double>(rows * vocab) * 4;
  return rows_.AddSeconds(op, Median(std::move(all)));
}

// A budget in tokens: 2K of contexts of 32K.
int64_t BudgetOf(const DeviceOpsOptions& options) {
  return std::max<int64_t>(1, options.decode_context / 16 / kPageTokens) *
         kPageTokens;
}

Chooser MeanChooser(int64_t budget) {
  return {.name = fmt::format("mean {}", budget),
          .spec = fmt::format("mean:budget={}", budget)};
}

Status AddAttention(OpsBench& bench, const DeviceOpsOptions& options) {
  constexpr int kSparseBatch = 64;
  const int64_t shorter = options.decode_context;
  const int64_t longer = 4 * options.decode_context;
  const int64_t budget = BudgetOf(options);
  const Chooser mean = MeanChooser(budget);
  const Chooser quest = {
      .name = fmt::format("quest {}", budget),
      .spec =
          fmt::format("quest:budget={},block=32,dense_layers=none", budget)};
  RETURN_IF_ERROR(bench.AddDenseRead(kDecodeBatch, shorter));
  RETURN_IF_ERROR(bench.AddDenseRead(1, longer));
  RETURN_IF_ERROR(bench.AddSparseRead(mean, kSparseBatch, longer));
  for (const Chooser& chooser : {mean, quest}) {
    for (const int batch : {kDecodeBatch, 1}) {
      RETURN_IF_ERROR(bench.AddSelector(chooser, batch, longer));
    }
  }
  RETURN_IF_ERROR(
      bench.AddPromptRead(std::max<int64_t>(1, options.prompt_context / 2)));
  return bench.AddPromptRead(options.prompt_context * 2);
}

// docs/decisions/002-memory-layout.md: the same ops where memory is laid out
// otherwise.
Status AddLayouts(OpsBench& bench, const DeviceOpsOptions& options) {
  using PoolOrder = BenchRequests::PoolOrder;
  using ValuePlace = BenchRequests::ValuePlace;
  using SummaryPlace = BenchRequests::SummaryPlace;
  // With one layer either order is the other.
  constexpr int kManyLayers = 8;
  constexpr Layout kLayouts[] = {
      {.name = ", layer-major", .least_layers = kManyLayers},
      {.name = ", block-major",
       .pool_order = PoolOrder::kKvBlockMajor,
       .least_layers = kManyLayers},
      {.name = ", K and V apart",
       .value_place = ValuePlace::kApart,
       .least_layers = kManyLayers},
      {.name = ", summaries paged",
       .summary_place = SummaryPlace::kPages,
       .least_layers = kManyLayers},
      {.name = ", summaries beside KV",
       .summary_place = SummaryPlace::kBesideKv,
       .least_layers = kManyLayers}};
  const Chooser mean = MeanChooser(BudgetOf(options));
  for (const Layout& layout : kLayouts) {
    if (layout.summary_place == SummaryPlace::kSegments) {
      RETURN_IF_ERROR(
          bench.AddDenseRead(kDecodeBatch, options.decode_context, layout));
    }
    RETURN_IF_ERROR(
        bench.AddSelector(mean, kDecodeBatch, options.decode_context, layout));
  }
  return Ok{};
}

}  // namespace

Result<Json> MeasureDeviceOps(Backend& backend, const Model& model,
                              const DeviceOpsOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<DeviceRoofs> roofs,
                   DeviceRoofs::Create(backend, model, options.roofs));
  DeviceOpRows table(backend, *roofs, options.rounds, options.on_row);
  OpsBench bench(backend, model, options, table);
  for (const int64_t rows :
       {int64_t{1}, int64_t{8}, int64_t{16}, int64_t{64}, options.chunk_rows}) {
    RETURN_IF_ERROR(bench.AddProducts(rows));
  }
  RETURN_IF_ERROR(AddAttention(bench, options));
  RETURN_IF_ERROR(AddSelectorOps(backend, model, options, table));
  if (options.layouts) RETURN_IF_ERROR(AddLayouts(bench, options));
  RETURN_IF_ERROR(bench.AddAppend());
  for (const int64_t rows : {int64_t{16}, options.chunk_rows}) {
    RETURN_IF_ERROR(bench.AddRowOps(rows));
  }
  for (const int rows : {1, 16}) {
    RETURN_IF_ERROR(bench.AddSample(rows, {.temperature = 0}, "greedy"));
    RETURN_IF_ERROR(bench.AddSample(rows, {.top_p = 0.95f}, "top-p 0.95"));
  }
  return Json{{"read_roof_gb_per_second", roofs->bytes_per_second() / 1e9},
              {"product_roof_gflops", roofs->flops_per_second() / 1e9},
              {"copied_bytes", 2 * options.roofs.copied_bytes},
              {"verbs", table.Take()}};
}

std::string DeviceOpsHeader() {
  return fmt::format("{:<54} {:>10} {:>8} {:>10} {:>10} {:>13}\n", "verb", "us",
                     "GB/s", "GFLOP/s", "/copy roof", "/product roof");
}

std::string DeviceOpsLine(const Json& row) {
  return fmt::format(
      "{:<54} {:>10.1f} {:>8.0f} {:>10.0f} {:>10.2f} {:>13.2f}\n",
      row["verb"].get<std::string>(), row["us"].get<double>(),
      row["gb_per_second"].get<double>(), row["gflops"].get<double>(),
      row["share_of_read_roof"].get<double>(),
      row["share_of_product_roof"].get<double>());
}

std::string DeviceOpsRoofs(const Json& report) {
  return fmt::format(
      "roofs: a copy on the device of {} to as much, {:.0f} GB/s read and "
      "written; products of many rows, {:.0f} GFLOP/s\n",
      FormatBytes(report["copied_bytes"].get<int64_t>() / 2),
      report["read_roof_gb_per_second"].get<double>(),
      report["product_roof_gflops"].get<double>());
}

}  // namespace winnow
