// SummaryCache: one selector's summaries on a device, which is the pool of
// segments and the tables that lead to it.
#ifndef WINNOW_CACHE_DEVICE_SUMMARY_CACHE_H_
#define WINNOW_CACHE_DEVICE_SUMMARY_CACHE_H_

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cache/device/device_page_table.h"
#include "kv/growth.h"

namespace winnow {

struct SummaryCacheOptions {
  SummaryLayout layout;  // head_bytes > 0
  int num_layers = 0;
  int num_kv_heads = 0;  // of this rank
  int64_t num_segments = 0;
  int max_requests = 0;           // in one step
  int64_t num_table_entries = 0;  // of all requests of a step
};

// Bytes of the tables on a device.
struct SummaryCacheBytes {
  int64_t table = 0;  // segments of a step's requests
  int64_t rows = 0;
};
SummaryCacheBytes BytesOf(const SummaryCacheOptions& options);

// Owns the summaries' bytes, segment-major: one copy moves a segment of all
// layers and heads. A segment is to it as a KV block is to a DeviceCache; kv
// decides which sequence has which. Used by the engine's thread alone; nothing
// is allocated after Create.
class SummaryCache {
 public:
  // REQUIRES: sizes are positive; the backend outlives the cache. Fails with
  // kResourceExhausted if memory does not suffice.
  static Result<std::unique_ptr<SummaryCache>> Create(
      Backend& backend, const SummaryCacheOptions& options);

  // One for each layer, constant for the cache's life.
  std::span<const SummaryTable> layers() const { return layers_; }

  // Makes row i of the table segments[i], for the i-th request of the step.
  // REQUIRES: as DevicePageTable::Write.
  void WriteTables(Queue& queue,
                   std::span<const std::span<const KvBlockId>> segments);
  // Copies whole segments, before the step that writes into the copies.
  void Apply(Queue& queue, std::span<const KvBlockCopy> copies);

 private:
  SummaryCache(Backend& backend, const SummaryCacheOptions& options,
               Buffer pool, DevicePageTable table);
  View Segment(KvBlockId segment) const;

  Backend& backend_;
  int64_t segment_bytes_;
  Buffer pool_;
  DevicePageTable table_;
  std::vector<SummaryTable> layers_;  // [num_layers]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_SUMMARY_CACHE_H_
