// What a step of decoding takes by bytes and rates: a prediction, not a
// measurement.
#ifndef WINNOW_SIMULATE_COST_MODEL_H_
#define WINNOW_SIMULATE_COST_MODEL_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace winnow {

// Rates that a step runs at, of each of its GPUs.
struct DeviceModel {
  std::string_view name;
  double memory_gb_s = 0;  // of the device: weights, summaries, KV
  double tflop_s = 0;      // of products of many rows
  double link_gb_s = 0;    // host to device, gathered pieces of 2 KiB and more
  double disk_gb_s = 0;    // read, by all together
  double layer_us = 0;     // launches and what is not bytes, a layer
  double memory_gib = 0;   // of the device
  double host_gib = 0;     // of the host, for all together
  // A layer's products, KV heads and slots are shared out; a step then sums its
  // rows over the GPUs twice a layer, each time in all_reduce_us and the bytes
  // of a ring at all_reduce_gb_s each way.
  int num_gpus = 1;
  double all_reduce_gb_s = 0, all_reduce_us = 0;
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
  int hidden_size = 0;
  int num_q_heads = 0;

  int64_t weight_bytes() const { return 2 * num_weights; }
  // K and V of a token, of one layer and KV head.
  int64_t token_bytes() const { return int64_t{4} * head_dim; }
};

// What one row of a request does, mean over rows.
struct RowWork {
  double context_tokens = 0;
  int dense_layers = 0;  // whose layer blocks are all on the device
  // Of a choosing layer and KV head: read; in pieces that need a slot, each
  // once; missed of these, and brought as hints.
  double read_tokens = 0, wanted_tokens = 0;
  double missed_tokens = 0, hinted_tokens = 0;
  int piece_tokens = kPageTokens;  // of what is missed and brought: a slot's
  double slot_tokens = 0;          // slots of a choosing layer, of each KV head
  double summary_bytes = 0;        // of a token of context, likewise

  double hit_rate() const {
    return wanted_tokens > 0 ? 1 - missed_tokens / wanted_tokens : 1;
  }
  // All pages are on the device, and nothing on the host.
  bool is_whole() const { return slot_tokens >= context_tokens; }
};
// The same row where all pages are whole.
RowWork WholeWork(const RowWork& row);

struct PredictedStep {
  double products_ms = 0, score_ms = 0, read_ms = 0, link_ms = 0, fixed_ms = 0;
  double all_reduce_ms = 0;
  double hint_excess_ms = 0;  // hints that the idle link has no time for
  double tpot_ms = 0;
  double tokens_s = 0;
};

// What the link carries of pieces of so many tokens. A piece's K and its V lie
// apart, each of them together, and Fetch copies them so: what is gathered is
// of piece_tokens * head_dim numbers. Of these the share of link_gb_s that was
// measured (docs/tiers.md has the table): all of it from 2 KiB on, straight
// between the sizes that were measured, and below the least one as the size is.
double PieceLinkGbS(const DeviceModel& device, const ModelSize& model,
                    int piece_tokens);

// A step of `batch` such rows, of as many requests. In choosing layers what is
// missed comes while what is near is read: the longer of the two counts (design
// section 4); hints come in the time that the link is idle.
PredictedStep PredictStep(const DeviceModel& device, const ModelSize& model,
                          const RowWork& row, int64_t batch);

// Of one request on each GPU: slots, dense layers, its open KV block,
// summaries.
double RequestBytes(const DeviceModel& device, const ModelSize& model,
                    const RowWork& row);
// On the host: its pages, of all layers, as a KV block there has them; but of a
// row that is whole.
double HostBytes(const ModelSize& model, const RowWork& row);

// What memories must have for `batch` requests beside the weights, of which
// kUsableMemory is theirs.
struct MemoryNeed {
  double device_gib = 0;  // of each GPU
  double host_gib = 0;

  bool fits(const DeviceModel& device) const {
    return device_gib <= device.memory_gib && host_gib <= device.host_gib;
  }
};
MemoryNeed NeedOf(const DeviceModel& device, const ModelSize& model,
                  const RowWork& row, int64_t batch);
// The most requests whose need fits.
int64_t RequestsThatFit(const DeviceModel& device, const ModelSize& model,
                        const RowWork& row);
inline constexpr double kUsableMemory = 0.9;

// What it takes to have a whole context's KV near again: copied from the disk
// or from the host to the device, or computed, all of it at once: products and
// causal attention of every row over all tokens before it, at the rate of
// products, and nothing else.
struct RestoreTimes {
  double from_disk_ms = 0, from_host_ms = 0, computed_ms = 0;
};
RestoreTimes PredictRestore(const DeviceModel& device, const ModelSize& model,
                            const RowWork& row);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_COST_MODEL_H_
