// What a step of decoding takes by bytes and rates: a prediction, not a
// measurement.
#ifndef WINNOW_TRACE_COST_MODEL_H_
#define WINNOW_TRACE_COST_MODEL_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace winnow {

// Rates that a step runs at.
struct DeviceModel {
  std::string_view name;
  double memory_gb_s = 0;  // of the device: weights, summaries, KV
  double tflop_s = 0;      // of products of many rows
  double link_gb_s = 0;    // host to device, gathered pieces of 2 KiB and more
  double disk_gb_s = 0;    // read
  double layer_us = 0;     // launches and what is not bytes, a layer
  double memory_gib = 0;   // of the device
};

// h200: measured (docs/tiers.md has the table and its sources). The others'
// data sheets times the share of its own that the H200 reached; their disk and
// launches are taken to be the H200's.
std::span<const DeviceModel> DeviceModels();
// Fails with kInvalidArgument where there is none of that name.
Result<DeviceModel> DeviceModelOf(std::string_view name);

// The model that is decoded with, of bfloat16.
struct ModelSize {
  int64_t num_weights = 0;
  int num_layers = 0;
  int num_kv_heads = 0;
  int head_dim = 0;

  int64_t weight_bytes() const { return 2 * num_weights; }
  // K and V of a token, of one layer and KV head.
  int64_t token_bytes() const { return int64_t{4} * head_dim; }
};

// What one row of a request does, mean over rows.
struct RowWork {
  double context_tokens = 0;
  int dense_layers = 0;  // whose pages are all on the device
  // Of a choosing layer and KV head: read, missed and brought as hints.
  double read_tokens = 0, missed_tokens = 0, hinted_tokens = 0;
  double slot_tokens = 0;    // slots of a choosing layer, of each KV head
  double summary_bytes = 0;  // of a token of context, likewise
};

struct PredictedStep {
  double products_ms = 0, score_ms = 0, read_ms = 0, link_ms = 0, fixed_ms = 0;
  double hint_excess_ms = 0;  // hints that the idle link has no time for
  double tpot_ms = 0;
  double tokens_s = 0;
};

// A step of `batch` such rows, of as many requests. In choosing layers what is
// missed comes while what is near is read: the longer of the two counts (design
// section 4); hints come in the time that the link is idle.
PredictedStep PredictStep(const DeviceModel& device, const ModelSize& model,
                          const RowWork& row, int64_t batch);

// Of one request on the device: slots, dense layers, its open extent,
// summaries.
double RequestBytes(const ModelSize& model, const RowWork& row);
// Requests that fit beside the weights in kUsableMemory of the memory.
int64_t RequestsThatFit(const DeviceModel& device, const ModelSize& model,
                        const RowWork& row);
inline constexpr double kUsableMemory = 0.9;

// To bring a whole context back, from the disk to the device.
double RestoreFromDiskMs(const DeviceModel& device, const ModelSize& model,
                         const RowWork& row);

}  // namespace winnow

#endif  // WINNOW_TRACE_COST_MODEL_H_
