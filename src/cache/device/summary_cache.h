// What lies on a device of one selector's summaries: the pool of segments, and
// the tables that lead to it.
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

// What that takes on a device.
struct SummaryCacheBytes {
  int64_t table = 0;  // where a step's requests have them
  int64_t rows = 0;
};
SummaryCacheBytes BytesOf(const SummaryCacheOptions& options);

// Owns the summaries' bytes, segment-major: a segment's layers and heads stand
// together, so that a copy of it is one copy. Segments are to it what KV blocks
// are to a DeviceCache; which sequence has which is kv's to say. Used by the
// engine's thread alone; nothing is allocated after Create.
class SummaryCache {
 public:
  // REQUIRES: sizes are positive; the backend outlives the cache. Fails where
  // memory does not suffice.
  static Result<std::unique_ptr<SummaryCache>> Create(
      Backend& backend, const SummaryCacheOptions& options);

  // One a layer, the same for the cache's life.
  std::span<const SummaryTable> layers() const { return layers_; }

  // Row i of the table is segments[i] from here on: of the i-th request of the
  // step. REQUIRES: as DevicePageTable::Write.
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
