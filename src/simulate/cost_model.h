// Predicts the time of a decode step from bytes and rates. A prediction, not a
// measurement.
#ifndef WINNOW_SIMULATE_COST_MODEL_H_
#define WINNOW_SIMULATE_COST_MODEL_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace winnow {

// Rates of one GPU.
struct DeviceModel {
  std::string_view name;
  double memory_gb_s = 0;  // device memory: weights, summaries, KV
  double tflop_s = 0;      // matrix products of many rows
  double link_gb_s = 0;   // host to device, gathered in parts of 2 KiB and more
  double disk_gb_s = 0;   // reads, over all GPUs
  double layer_us = 0;    // launches and other fixed time, for each layer
  double memory_gib = 0;  // of the device
  double host_gib = 0;    // of the host, over all GPUs
  // The GPUs share a layer's products, KV heads and cache slots. A step then
  // sums its rows over the GPUs twice in each layer. Each sum takes
  // all_reduce_us and the time of a ring's bytes at all_reduce_gb_s each way.
  int num_gpus = 1;
  double all_reduce_gb_s = 0, all_reduce_us = 0;
};

// h200 is measured (docs/tiers.md has the table and its sources). The others
// are data sheet values times the share of its own that the H200 reached. Their
// disk and launches are assumed equal to the H200's.
std::span<const DeviceModel> DeviceModels();
// Fails with kInvalidArgument if no model has this name.
Result<DeviceModel> DeviceModelOf(std::string_view name);

// The size of the decoded model, in bfloat16.
struct ModelSize {
  int64_t num_weights = 0;
  int num_layers = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int hidden_size = 0;
  int num_q_heads = 0;

  int64_t weight_bytes() const { return 2 * num_weights; }
  // K and V of a token, for one layer and KV head.
  int64_t token_bytes() const { return int64_t{4} * head_dim; }
};

// The work of one row, averaged over rows.
struct RowWork {
  double context_tokens = 0;
  int dense_layers = 0;  // layers whose layer blocks are all resident
  // Tokens of one selecting layer and KV head: read; in sub-pages that need a
  // cache slot, each counted once; missed among these; fetched as hints.
  double read_tokens = 0, wanted_tokens = 0;
  double missed_tokens = 0, hinted_tokens = 0;
  int piece_tokens = kPageTokens;  // of a sub-page
  double slot_tokens = 0;  // cache slots of a selecting layer and KV head
  // Bytes for a token of context in one selecting layer and KV head.
  double summary_bytes = 0;

  double hit_rate() const {
    return wanted_tokens > 0 ? 1 - missed_tokens / wanted_tokens : 1;
  }
  // True if all pages are resident.
  bool is_whole() const { return slot_tokens >= context_tokens; }
};
// The same row with all pages resident.
RowWork WholeWork(const RowWork& row);

struct PredictedStep {
  double products_ms = 0, score_ms = 0, read_ms = 0, link_ms = 0, fixed_ms = 0;
  double all_reduce_ms = 0;
  double hint_excess_ms = 0;  // time of hints beyond the link's idle time
  double tpot_ms = 0;
  double tokens_s = 0;
};

// The link's rate for sub-pages of `piece_tokens`. Fetch copies a sub-page's K
// and its V separately, so one gathered part has piece_tokens * head_dim
// elements. Measured rates (docs/tiers.md has the table) are interpolated: full
// link_gb_s from 2 KiB on, linear between measured sizes, and proportional
// below the least.
double PieceLinkGbS(const DeviceModel& device, const ModelSize& model,
                    int piece_tokens);

// A step of `batch` such rows, one for each request. In selecting layers missed
// sub-pages arrive while resident ones are read, so the longer time counts
// (design section 4). Hints use the time in which the link is idle.
PredictedStep PredictStep(const DeviceModel& device, const ModelSize& model,
                          const RowWork& row, int64_t batch);

// Device bytes of one request on each GPU: cache slots, dense layers, the open
// KV block, summaries.
double RequestBytes(const DeviceModel& device, const ModelSize& model,
                    const RowWork& row);
// Host bytes of its pages over all layers; 0 if the row is resident.
double HostBytes(const ModelSize& model, const RowWork& row);

// The memory for `batch` requests and the weights. Requests and weights may use
// a share kUsableMemory of the device.
struct MemoryNeed {
  double device_gib = 0;  // of each GPU
  double host_gib = 0;

  bool fits(const DeviceModel& device) const {
    return device_gib <= device.memory_gib && host_gib <= device.host_gib;
  }
};
MemoryNeed NeedOf(const DeviceModel& device, const ModelSize& model,
                  const RowWork& row, int64_t batch);
// The greatest number of requests that fit.
int64_t RequestsThatFit(const DeviceModel& device, const ModelSize& model,
                        const RowWork& row);
inline constexpr double kUsableMemory = 0.9;

// Times to restore a whole context's KV to the device: copied from disk, copied
// from the host, or computed. Computing counts products and causal attention of
// every row at the rate of products, and nothing else.
struct RestoreTimes {
  double from_disk_ms = 0, from_host_ms = 0, computed_ms = 0;
};
RestoreTimes PredictRestore(const DeviceModel& device, const ModelSize& model,
                            const RowWork& row);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_COST_MODEL_H_
