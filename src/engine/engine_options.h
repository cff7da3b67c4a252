// EngineOptions: what an engine is given to work with.
#ifndef WINNOW_ENGINE_ENGINE_OPTIONS_H_
#define WINNOW_ENGINE_ENGINE_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "engine/schedule/decision.h"
#include "engine/schedule/restore_cost.h"
#include "engine/schedule/scheduler.h"
#include "engine/selection/selector_set.h"
#include "kv/slot_budget.h"
#include "kv/table_capacity.h"
#include "model/forward/model.h"

namespace winnow {

// Bounds of what is allocated by their number at start.
inline constexpr int kMaxNumSeqs = 1 << 16;
inline constexpr int kMaxNumBatchedTokens = 1 << 20;

struct EngineOptions {
  int max_model_len = 0;  // tokens a sequence may reach; 0: the model's limit
  int max_num_seqs = 16;  // running at once
  int max_num_batched_tokens = 2048;      // rows a step
  int max_table_sharers = kTableSharers;  // kv/table_capacity.h
  // That prompts may make a step last for requests beside them that generate,
  // as it is foretold; 0: however long.
  double max_step_ms = 0;
  // Called with each decision, on the thread that steps, but for those that
  // nobody is late; none: nobody listens.
  std::function<void(const Decision&)> on_decision = {};
  int64_t device_kv_bytes = 0;  // of the KV pool
  // Of the host's pool below it, where pages go that the device has no room
  // for. 0: none.
  int64_t host_kv_bytes = 0;
  // The slots that a request owns whose pages are not whole. Where it is given,
  // requests give up whole pages as soon as they may; else where the device
  // lacks room, for as many slots as seem right. It needs a host's pool, and a
  // selector that can do with slots.
  std::optional<CacheBudget> cache_budget = {};
  // The watermark of what is copied to the host before room is wanted, as a
  // share of the device's pool; 0: nothing is.
  double write_behind_share = 1.0 / 16;
  // Host memory that pages pass through on their way to and from a disk.
  int64_t disk_staging_bytes = 64 << 20;
  // A disk that has ended nothing for so long is waited for no more
  // (DiskPatience). Far longer than one takes that works.
  std::chrono::milliseconds disk_patience{10'000};
  // What is kept near of what is not read, where pages are not whole.
  HintOptions hints = {};
  // By what pages of the host and the disk are copied back or computed again;
  // where it says nothing all are copied. None: by what is measured.
  std::optional<RestoreRates> restore_rates = RestoreRates();
  // Whether the link's rate is measured also where these are given: to say how
  // long requests wait for it (KvCounters).
  bool measures_link = false;
  bool batch_invariant = false;
  // Requests begin with the pages that others left behind of the same prompt.
  bool prefix_caching = true;
  int layers_per_step = 0;  // 0: all; else prompts run layer range by range
  // Whether a step is launched before the one ahead of it has been read back.
  // None: where the device's ops return before they have run.
  std::optional<bool> looks_ahead = {};
  // What requests may choose with (sparse/spec/selector.h), by
  // Request::selector.
  std::vector<std::string> selectors = {};
  // Requests at once whose tokens come with what was read
  // (Request::is_watched), and the ranges that are told of a token and layer.
  int max_watched_requests = 0;
  int max_read_ranges = 256;
  // Rows of prompts whose logits are there at once, where requests ask for them
  // (Request::prompt_logprobs); 0: none may.
  int max_scored_rows = 0;
};

// Bytes of KV that one token takes over all layers.
int64_t KvBytesPerToken(const ModelConfig& config, Dtype kv_dtype);

// What the weights leave of the memory that the device had at start.
int64_t MemoryLeft(const BackendAttributes& attributes, const Model& model);

// The share of that which a KV pool takes where nobody says how much.
int64_t DefaultKvBytes(const BackendAttributes& attributes, const Model& model);

// Whether `value` is at least 1; the error names the field.
Status CheckPositive(std::string_view field, int64_t value);

// The options with every default filled in. Fails where one is out of range;
// the error names field, limit and value.
Result<EngineOptions> ResolveOptions(const EngineOptions& options,
                                     const ModelConfig& config);

// How many pages the KV pool has. Fails with kInvalidArgument where that is
// none or more than can be told apart, with kResourceExhausted where memory has
// no room for one, or not for all: the system would grant the pool's addresses
// all the same, and end the process once its pages are written.
Result<int64_t> KvPagesOf(const EngineOptions& options, const Model& model,
                          const BackendAttributes& attributes);

// The same of the host's pool, which may be none. Where the device's memory is
// the host's, it takes of what the KV pool leaves; whether that fits, KvPagesOf
// has said before.
Result<int64_t> HostPagesOf(const EngineOptions& options, const Model& model,
                            const BackendAttributes& attributes);

}  // namespace winnow

#endif  // WINNOW_ENGINE_ENGINE_OPTIONS_H_
