#include "simulate/cost_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/ids.h"

namespace winnow {
namespace {

// Data sheets: H200 SXM 4,800 GB/s, 989 TFLOP/s (bfloat16, dense), PCIe 5 x16
// 63.0 GB/s, NVLink 450 each way; A100 40GB 1,555 GB/s, 312, PCIe 4 x16 31.5,
// NVLink 300; RTX 4090 1,008 GB/s, 165 (float32 accumulation), PCIe 4 x16 31.5
// and no other link. The H200 reached 0.888 of its memory's rate, 0.708 of its
// products' and 0.816 of its link's, which is taken for links between GPUs too.
// Not measured: what an all-reduce of few bytes takes, and hosts' memory but
// the first's; DGX H200's data sheet has 2 TB.
constexpr DeviceModel kH200 = {.name = "h200",
                               .memory_gb_s = 4264,
                               .tflop_s = 700,
                               .link_gb_s = 51.4,
                               .disk_gb_s = 2.9,
                               .layer_us = 25,
                               .memory_gib = 140.4,
                               .host_gib = 128,
                               .all_reduce_gb_s = 367,
                               .all_reduce_us = 10};

constexpr DeviceModel NodeOfH200() {
  DeviceModel node = kH200;
  node.name = "h200x8";
  node.host_gib = 1863;
  node.num_gpus = 8;
  return node;
}

constexpr std::array<DeviceModel, 4> kDevices = {{
    kH200,
    {.name = "a100-40gb",
     .memory_gb_s = 1381,
     .tflop_s = 221,
     .link_gb_s = 25.7,
     .disk_gb_s = 2.9,
     .layer_us = 25,
     .memory_gib = 40,
     .host_gib = 128,
     .all_reduce_gb_s = 245,
     .all_reduce_us = 10},
    {.name = "rtx-4090",
     .memory_gb_s = 895,
     .tflop_s = 117,
     .link_gb_s = 25.7,
     .disk_gb_s = 2.9,
     .layer_us = 25,
     .memory_gib = 24,
     .host_gib = 128,
     .all_reduce_gb_s = 25.7,
     .all_reduce_us = 20},
    NodeOfH200(),
}};

// GB/s that a kernel of 8 blocks gathered from pinned host memory on an H200,
// by the bytes that lay together (docs/tiers.md); the last of all larger ones.
// More blocks gathered 3 % more of the smaller ones, at most.
struct GatherRate {
  double bytes, gb_s;
};
constexpr std::array<GatherRate, 3> kGatherRates = {
    {{512, 15.1}, {1024, 29.4}, {2048, 51.4}}};

constexpr double kGiga = 1e9, kTera = 1e12, kGiB = 1024.0 * 1024 * 1024;

double Ms(double amount, double giga_a_second) {
  return amount / (giga_a_second * kGiga) * 1e3;
}

// KV heads of a GPU: where they do not go round, some have more.
int HeadsEach(const DeviceModel& device, const ModelSize& model) {
  return (model.num_kv_heads + device.num_gpus - 1) / device.num_gpus;
}

// Two sums a layer over the GPUs, each as reduce and gather of bfloat16 rows
// around a ring.
double AllReduceMs(const DeviceModel& device, const ModelSize& model,
                   double rows) {
  if (device.num_gpus == 1) return 0;
  const double bytes = 2.0 * model.hidden_size * rows;
  const double passed = 2.0 * (device.num_gpus - 1) / device.num_gpus * bytes;
  return 2 * model.num_layers *
         (device.all_reduce_us / 1e3 + Ms(passed, device.all_reduce_gb_s));
}

}  // namespace

std::span<const DeviceModel> DeviceModels() { return kDevices; }

Result<DeviceModel> DeviceModelOf(std::string_view name) {
  const auto found = std::ranges::find(kDevices, name, &DeviceModel::name);
  if (found != kDevices.end()) return *found;
  std::vector<std::string_view> names;
  for (const DeviceModel& device : kDevices) names.push_back(device.name);
  return MakeError(ErrorCode::kInvalidArgument,
                   "--device-model must be one of {}, is \"{}\"",
                   fmt::join(names, ", "), name);
}

double PieceLinkGbS(const DeviceModel& device, const ModelSize& model,
                    int piece_tokens) {
  // bfloat16.
  const double bytes = 2.0 * piece_tokens * model.head_dim;
  const double most = kGatherRates.back().gb_s;
  GatherRate below = {0, 0};
  for (const GatherRate& rate : kGatherRates) {
    if (bytes < rate.bytes) {
      const double part = (bytes - below.bytes) / (rate.bytes - below.bytes);
      return device.link_gb_s / most *
             (below.gb_s + part * (rate.gb_s - below.gb_s));
    }
    below = rate;
  }
  return device.link_gb_s;
}

RowWork WholeWork(const RowWork& row) {
  RowWork whole = row;
  whole.slot_tokens = row.context_tokens;
  whole.missed_tokens = whole.hinted_tokens = 0;
  return whole;
}

PredictedStep PredictStep(const DeviceModel& device, const ModelSize& model,
                          const RowWork& row, int64_t batch) {
  const auto rows = static_cast<double>(batch);
  const auto token_bytes = static_cast<double>(model.token_bytes());
  const int choosing = model.num_layers - row.dense_layers;
  const int heads = HeadsEach(device, model);
  const double chosen_heads = rows * choosing * heads;
  const double dense_heads = rows * row.dense_layers * heads;
  const double link_gb_s = PieceLinkGbS(device, model, row.piece_tokens);
  PredictedStep cost;
  const double flops = 2.0 * static_cast<double>(model.num_weights) * rows;
  cost.products_ms = std::max(Ms(static_cast<double>(model.weight_bytes()),
                                 device.memory_gb_s),
                              flops / (device.tflop_s * kTera) * 1e3) /
                     device.num_gpus;
  cost.score_ms = Ms(chosen_heads * row.summary_bytes * row.context_tokens,
                     device.memory_gb_s);
  const double chosen_read_ms =
      Ms(chosen_heads * row.read_tokens * token_bytes, device.memory_gb_s);
  const double dense_read_ms =
      Ms(dense_heads * row.context_tokens * token_bytes, device.memory_gb_s);
  cost.read_ms = chosen_read_ms + dense_read_ms;
  cost.link_ms = Ms(chosen_heads * row.missed_tokens * token_bytes, link_gb_s);
  cost.fixed_ms = model.num_layers * device.layer_us / 1e3;
  cost.all_reduce_ms = AllReduceMs(device, model, rows);
  const double needed_ms = cost.products_ms + cost.score_ms + cost.fixed_ms +
                           cost.all_reduce_ms + dense_read_ms +
                           std::max(chosen_read_ms, cost.link_ms);
  const double hints_ms =
      Ms(chosen_heads * row.hinted_tokens * token_bytes, link_gb_s);
  cost.hint_excess_ms = std::max(0.0, hints_ms - (needed_ms - cost.link_ms));
  cost.tpot_ms = needed_ms + cost.hint_excess_ms;
  cost.tokens_s = rows / cost.tpot_ms * 1e3;
  return cost;
}

double RequestBytes(const DeviceModel& device, const ModelSize& model,
                    const RowWork& row) {
  const int heads = HeadsEach(device, model);
  const auto token_bytes = static_cast<double>(model.token_bytes() * heads);
  const int choosing = model.num_layers - row.dense_layers;
  const double slots = choosing * row.slot_tokens * token_bytes;
  const double dense = row.dense_layers * row.context_tokens * token_bytes;
  const double open = model.num_layers * kPageTokens * token_bytes;
  const double summaries =
      choosing * heads * row.summary_bytes * row.context_tokens;
  return slots + dense + open + summaries;
}

double HostBytes(const ModelSize& model, const RowWork& row) {
  if (row.is_whole()) return 0;
  return static_cast<double>(model.token_bytes()) * model.num_layers *
         model.num_kv_heads * row.context_tokens;
}

MemoryNeed NeedOf(const DeviceModel& device, const ModelSize& model,
                  const RowWork& row, int64_t batch) {
  const auto rows = static_cast<double>(batch);
  const double weights =
      static_cast<double>(model.weight_bytes()) / device.num_gpus;
  return {.device_gib = (weights + rows * RequestBytes(device, model, row)) /
                        kUsableMemory / kGiB,
          .host_gib = rows * HostBytes(model, row) / kUsableMemory / kGiB};
}

int64_t RequestsThatFit(const DeviceModel& device, const ModelSize& model,
                        const RowWork& row) {
  const double left =
      device.memory_gib * kGiB * kUsableMemory -
      static_cast<double>(model.weight_bytes()) / device.num_gpus;
  double most = left / RequestBytes(device, model, row);
  if (const double host = HostBytes(model, row); host > 0) {
    most = std::min(most, device.host_gib * kGiB * kUsableMemory / host);
  }
  return std::max<int64_t>(0, static_cast<int64_t>(most));
}

RestoreTimes PredictRestore(const DeviceModel& device, const ModelSize& model,
                            const RowWork& row) {
  const double tokens = row.context_tokens;
  const double bytes = static_cast<double>(model.token_bytes()) *
                       model.num_kv_heads * model.num_layers * tokens;
  const double link_gb_s = device.link_gb_s * device.num_gpus;
  const double products = 2.0 * static_cast<double>(model.num_weights) * tokens;
  // q k and p v, each over half of all tokens.
  const double attention = 2.0 * tokens * tokens * model.num_q_heads *
                           model.head_dim * model.num_layers;
  return {.from_disk_ms = Ms(bytes, std::min(device.disk_gb_s, link_gb_s)),
          .from_host_ms = Ms(bytes, link_gb_s),
          .computed_ms = (products + attention) /
                         (device.tflop_s * device.num_gpus * kTera) * 1e3};
}

}  // namespace winnow
