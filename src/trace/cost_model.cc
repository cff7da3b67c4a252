#include "trace/cost_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/ids.h"

namespace winnow {
namespace {

// Data sheets: H200 SXM 4,800 GB/s, 989 TFLOP/s (bfloat16, dense), PCIe 5 x16
// 63.0 GB/s; A100 40GB 1,555 GB/s, 312, PCIe 4 x16 31.5; RTX 4090 1,008 GB/s,
// 165 (float32 accumulation), PCIe 4 x16 31.5. The H200 reached 0.888 of its
// memory's rate, 0.708 of its products' and 0.816 of its link's.
constexpr std::array<DeviceModel, 3> kDevices = {{
    {"h200", 4264, 700, 51.4, 2.9, 25, 140.4},
    {"a100-40gb", 1381, 221, 25.7, 2.9, 25, 40},
    {"rtx-4090", 895, 117, 25.7, 2.9, 25, 24},
}};

constexpr double kGiga = 1e9, kTera = 1e12, kGiB = 1024.0 * 1024 * 1024;

double Ms(double amount, double giga_a_second) {
  return amount / (giga_a_second * kGiga) * 1e3;
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

PredictedStep PredictStep(const DeviceModel& device, const ModelSize& model,
                          const RowWork& row, int64_t batch) {
  const auto rows = static_cast<double>(batch);
  const auto token_bytes = static_cast<double>(model.token_bytes());
  const int choosing = model.num_layers - row.dense_layers;
  const double chosen_heads = rows * choosing * model.num_kv_heads;
  const double dense_heads = rows * row.dense_layers * model.num_kv_heads;
  PredictedStep cost;
  const double flops = 2.0 * static_cast<double>(model.num_weights) * rows;
  cost.products_ms = std::max(
      Ms(static_cast<double>(model.weight_bytes()), device.memory_gb_s),
      flops / (device.tflop_s * kTera) * 1e3);
  cost.score_ms = Ms(chosen_heads * row.summary_bytes * row.context_tokens,
                     device.memory_gb_s);
  const double chosen_read_ms =
      Ms(chosen_heads * row.read_tokens * token_bytes, device.memory_gb_s);
  const double dense_read_ms =
      Ms(dense_heads * row.context_tokens * token_bytes, device.memory_gb_s);
  cost.read_ms = chosen_read_ms + dense_read_ms;
  cost.link_ms =
      Ms(chosen_heads * row.missed_tokens * token_bytes, device.link_gb_s);
  cost.fixed_ms = model.num_layers * device.layer_us / 1e3;
  const double needed_ms = cost.products_ms + cost.score_ms + cost.fixed_ms +
                           dense_read_ms +
                           std::max(chosen_read_ms, cost.link_ms);
  const double hints_ms =
      Ms(chosen_heads * row.hinted_tokens * token_bytes, device.link_gb_s);
  cost.hint_excess_ms = std::max(0.0, hints_ms - (needed_ms - cost.link_ms));
  cost.tpot_ms = needed_ms + cost.hint_excess_ms;
  cost.tokens_s = rows / cost.tpot_ms * 1e3;
  return cost;
}

double RequestBytes(const ModelSize& model, const RowWork& row) {
  const auto token_bytes =
      static_cast<double>(model.token_bytes() * model.num_kv_heads);
  const int choosing = model.num_layers - row.dense_layers;
  const double slots = choosing * row.slot_tokens * token_bytes;
  const double dense = row.dense_layers * row.context_tokens * token_bytes;
  const double open = model.num_layers * kPageTokens * token_bytes;
  const double summaries =
      choosing * model.num_kv_heads * row.summary_bytes * row.context_tokens;
  return slots + dense + open + summaries;
}

int64_t RequestsThatFit(const DeviceModel& device, const ModelSize& model,
                        const RowWork& row) {
  const double left = device.memory_gib * kGiB * kUsableMemory -
                      static_cast<double>(model.weight_bytes());
  return std::max<int64_t>(
      0, static_cast<int64_t>(left / RequestBytes(model, row)));
}

double RestoreFromDiskMs(const DeviceModel& device, const ModelSize& model,
                         const RowWork& row) {
  const double bytes = static_cast<double>(model.token_bytes()) *
                       model.num_kv_heads * model.num_layers *
                       row.context_tokens;
  return Ms(bytes, std::min(device.disk_gb_s, device.link_gb_s));
}

}  // namespace winnow
