#include "bench/ops/bench_selector_ops.h"

#include <algorithm>

#include "bench/ops/op_requests.h"

namespace winnow {
namespace {

// Of K and V, what a call's summaries are at least.
constexpr double kSummaryShare = 1.0 / 64;

class SelectorOps {
 public:
  SelectorOps(Backend& backend, const Model& model,
              const DeviceOpsOptions& options, DeviceOpRows& rows)
      : requests_(backend, model, options),
        context_(4 * options.decode_context),
        budget_(std::max<int64_t>(1, options.decode_context / 16 / 32) * 32),
        rows_(rows) {}

  Status AddGates(int batch);
  Status AddClusters(int batch);
  Status AddObserved();
  Status AddOutliers();
  Status AddNextRanks();

 private:
  using Bench = std::unique_ptr<BenchRequests>;
  Result<Bench> Make(std::string_view select, int batch,
                     double next_times = 0) const;
  // "seerattention-r 2048, 131072 tokens x 16"
  std::string NameOf(const BenchRequests& bench) const;
  // One of a call a layer.
  static DeviceOp OpOf(const BenchRequests& bench, std::string name,
                       std::function<void(int layer)> run);
  Status AddFixed(const std::string& select);
  // Select with its launches, and Attend over what it picks.
  Status AddSelect(BenchRequests& bench);

  const OpRequests requests_;
  const int64_t context_, budget_;
  DeviceOpRows& rows_;
};

Result<SelectorOps::Bench> SelectorOps::Make(std::string_view select, int batch,
                                             double next_times) const {
  BenchRequests::Shape shape = requests_.ShapeOf(batch, context_);
  shape.select = std::string(select);
  shape.next_times = next_times;
  return requests_.Make(shape, kSummaryShare);
}

std::string SelectorOps::NameOf(const BenchRequests& bench) const {
  const std::string& select = bench.shape().select;
  return fmt::format("{} {}, {} tokens x {}",
                     select.substr(0, select.find(':')), budget_, context_,
                     bench.shape().batch);
}

DeviceOp SelectorOps::OpOf(const BenchRequests& bench, std::string name,
                           std::function<void(int layer)> run) {
  const int layers = bench.shape().num_layers;
  DeviceOp op;
  op.name = std::move(name);
  op.calls = OpRequests::CallsOver(layers);
  op.queue = &bench.queue();
  op.run = [layers, run = std::move(run)](int call) { run(call % layers); };
  return op;
}

Status SelectorOps::AddSelect(BenchRequests& bench) {
  DeviceOp select = OpOf(bench, "Select, " + NameOf(bench),
                         [&](int layer) { bench.Select(layer); });
  // A choice that is made once reads its own bits of each page at least.
  const double masks =
      static_cast<double>(PagesFor(context_) * bench.shape().batch *
                          bench.shape().num_kv_heads * 4);
  select.bytes =
      std::max(bench.summary_bytes() + bench.gate_query_bytes(), masks);
  select.flops = bench.select_flops();
  RETURN_IF_ERROR(rows_.Add(select));
  RETURN_IF_ERROR(rows_.AddLaunches(select));
  DeviceOp read = OpOf(bench, "Attend, picks of " + NameOf(bench),
                       [&](int layer) { bench.ReadPicks(layer); });
  ASSIGN_OR_RETURN(read.bytes, bench.PickedBytes());
  return rows_.Add(read);
}

Status SelectorOps::AddGates(int batch) {
  ASSIGN_OR_RETURN(const Bench bench,
                   Make(fmt::format("seerattention-r:budget={},block={}",
                                    budget_, std::min<int64_t>(budget_, 64)),
                        batch));
  RETURN_IF_ERROR(AddSelect(*bench));
  // All of a context: a chunk of a prompt is a part of that.
  DeviceOp keys = OpOf(*bench, "Summarize, all of " + NameOf(*bench),
                       [&](int layer) { bench->SummarizeAll(layer); });
  keys.calls = bench->shape().num_layers;
  keys.bytes = bench->all_summaries_bytes();
  keys.flops = bench->all_summaries_flops();
  return rows_.Add(keys);
}

Status SelectorOps::AddClusters(int batch) {
  ASSIGN_OR_RETURN(const Bench bench,
                   Make(fmt::format("retroinfer:budget={}", budget_), batch));
  RETURN_IF_ERROR(AddSelect(*bench));
  DeviceOp estimates = OpOf(*bench, "Attend, estimates of " + NameOf(*bench),
                            [&](int layer) { bench->ReadEstimates(layer); });
  ASSIGN_OR_RETURN(estimates.bytes, bench->EstimatedBytes());
  RETURN_IF_ERROR(rows_.Add(estimates));
  DeviceOp combine =
      OpOf(*bench, fmt::format("MergeStates, {} rows", bench->shape().batch),
           [&](int) { bench->MergeStates(); });
  combine.bytes = bench->combine_bytes();
  RETURN_IF_ERROR(rows_.Add(combine));
  if (batch > 1) return Ok{};
  DeviceOp index = OpOf(*bench, "ClusterKeys, all of " + NameOf(*bench),
                        [&](int layer) { bench->ClusterKeys(layer); });
  index.calls = bench->shape().num_layers;
  index.bytes = bench->index_bytes();
  index.flops = bench->index_flops();
  return rows_.Add(index);
}

Status SelectorOps::AddFixed(const std::string& select) {
  ASSIGN_OR_RETURN(const Bench bench, Make(select, kDecodeBatch));
  RETURN_IF_ERROR(AddSelect(*bench));
  ASSIGN_OR_RETURN(const Bench one, Make(select, 1));
  DeviceOp choice = OpOf(*one, "Summarize, the choice of " + NameOf(*one),
                         [&](int layer) { one->SummarizeAll(layer); });
  choice.calls = one->shape().num_layers;
  choice.bytes = one->all_summaries_bytes();
  choice.flops = one->all_summaries_flops();
  return rows_.Add(choice);
}

Status SelectorOps::AddObserved() {
  return AddFixed(fmt::format("snapkv:budget={},window={}", budget_,
                              std::min<int64_t>(budget_ / 2, 32)));
}

Status SelectorOps::AddOutliers() {
  return AddFixed(fmt::format("shadowkv:budget={}", budget_));
}

Status SelectorOps::AddNextRanks() {
  constexpr double kTimes = 3;
  ASSIGN_OR_RETURN(
      const Bench bench,
      Make(fmt::format("mean:budget={}", budget_), kDecodeBatch, kTimes));
  DeviceOp select = OpOf(*bench, "Select with next ranks, " + NameOf(*bench),
                         [&](int layer) { bench->Select(layer); });
  select.bytes = bench->summary_bytes();
  select.flops = bench->select_flops();
  RETURN_IF_ERROR(rows_.Add(select));
  return rows_.AddLaunches(select);
}

}  // namespace

Status AddSelectorOps(Backend& backend, const Model& model,
                      const DeviceOpsOptions& options, DeviceOpRows& rows) {
  SelectorOps ops(backend, model, options, rows);
  for (const int batch : {kDecodeBatch, 1}) {
    RETURN_IF_ERROR(ops.AddGates(batch));
    RETURN_IF_ERROR(ops.AddClusters(batch));
  }
  RETURN_IF_ERROR(ops.AddObserved());
  RETURN_IF_ERROR(ops.AddOutliers());
  return ops.AddNextRanks();
}

}  // namespace winnow
