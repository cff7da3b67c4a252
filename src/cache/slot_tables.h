// What lies on a device of the slots: their state, and the tables that lead to
// them and to the host.
#ifndef WINNOW_CACHE_SLOT_TABLES_H_
#define WINNOW_CACHE_SLOT_TABLES_H_

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cache/host_pool.h"
#include "cache/strip_pool.h"
#include "kv/slot_ledger.h"

namespace winnow {

struct SlotTablesOptions {
  SliceFormat format;  // with slot_tokens
  int num_layers = 0;
  int num_kv_heads = 0;  // of this rank
  int64_t num_segments = 0;
  int64_t num_chunks = 0;
  int max_requests = 0;         // in one step
  int64_t num_far_pages = 0;    // that the requests of a step may have
  int64_t num_table_pages = 0;  // the same, with whole ones
  int max_frames = 0;           // of a request in one layer
};

// What the tables take on the device, in bytes.
struct SlotTablesBytes {
  int64_t entries = 0;
  int64_t tags = 0;
  int64_t ages = 0;
  int64_t frames = 0;
  int64_t rows = 0;    // which of these a step's requests have, and host pages
  int64_t counts = 0;  // of Bring

  int64_t total() const {
    return entries + tags + ages + frames + rows + counts;
  }
};
SlotTablesBytes BytesOf(const SlotTablesOptions& options);

// One request of a step, as kv has it.
struct SlotRequest {
  SequenceId sequence;  // open in the ledger; or not: all its pages are whole
  std::span<const ExtentId> host_pages;  // by page; of whole ones anything
};

// Owns entries, tags, ages and the rows of a step's requests; the slots' bytes
// are strips of the device's pool. Carries out what a SlotLedger decides, as
// edits in the order of one queue. Used by the engine's thread alone; nothing
// is allocated after Create.
//
// Of a sequence that is closed nothing is cleared: its frames are when they
// come to another. But a page whose tokens are written anew (rolled back) must
// not have been other than whole: entries would lead to the old ones.
class SlotTables {
 public:
  // REQUIRES: sizes are positive; all outlive the tables. Fails where memory
  // does not suffice.
  static Result<std::unique_ptr<SlotTables>> Create(
      Backend& backend, const StripPool& device, const HostPool& host,
      const SlotTablesOptions& options);

  // One a layer, the same for the tables' life.
  std::span<const SlotTable> layers() const { return layers_; }
  // What Bring counts, by layer: u32 [max_requests, kNumBringCounts], zeros
  // after WriteRows.
  std::span<const View> counts() const { return counts_; }
  // The same of all, as bytes.
  View count_bytes() const {
    return counts_bytes_.At(0, Dtype::kUInt8,
                            {static_cast<int64_t>(counts_bytes_.num_bytes())});
  }

  // Row i is requests[i] from here on: what is sent grows with what they have.
  // REQUIRES: there is room for their pages; what was enqueued up to the call
  // before the last has passed, for its staging memory is used again.
  void WriteRows(Queue& queue, const SlotLedger& ledger,
                 std::span<const SlotRequest> requests);
  // Frames that were added hold nothing. Before the next WriteRows that names
  // their sequence. REQUIRES: as WriteRows.
  void Clear(Queue& queue, const SlotLedger& ledger,
             std::span<const AddedFrames> added);

  // On the device, in all.
  size_t num_bytes() const;

 private:
  SlotTables(Backend& backend, const StripPool& device,
             const SlotTablesOptions& options);
  Status Allocate(const HostPool& host);
  void MakeLayers(const HostPool& host);
  uint32_t StripNumber(uint32_t strip) const;
  View WordsOf(const Buffer& buffer, int64_t first, int64_t count) const;

  Backend& backend_;
  const StripPool& device_;
  const SlotTablesOptions options_;
  const int pieces_;  // a page
  Buffer entries_, tags_, ages_, frames_, host_memory_, counts_bytes_;
  Buffer frames_mirror_, zeros_;  // on the host
  Buffer blank_;                  // tags, then ages, of a chunk that is empty
  // Numbers by request, then its rows: of segments, host pages and, layer by
  // layer, chunks.
  Buffer rows_;
  std::array<Buffer, 2> staging_;
  size_t turn_ = 0;
  std::vector<SlotTable> layers_;  // [num_layers]
  std::vector<View> counts_;       // [num_layers]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_SLOT_TABLES_H_
