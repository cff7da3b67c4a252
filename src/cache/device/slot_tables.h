// What lies on a device of the slots: their state, and the tables that lead to
// them and to the host.
#ifndef WINNOW_CACHE_DEVICE_SLOT_TABLES_H_
#define WINNOW_CACHE_DEVICE_SLOT_TABLES_H_

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cache/host/host_pool.h"
#include "cache/host/layer_block_pool.h"
#include "kv/reclaimable_pages.h"
#include "kv/slot_ledger.h"

namespace winnow {

struct SlotTablesOptions {
  HeadBlockFormat format;  // with slot_tokens
  int num_layers = 0;
  int num_kv_heads = 0;  // of this rank
  int64_t num_segments = 0;
  int64_t num_chunks = 0;
  int max_requests = 0;         // in one step
  int64_t num_far_pages = 0;    // that the requests of a step may have
  int64_t num_table_pages = 0;  // the same, with whole ones
  int max_frames = 0;           // of a request in one layer
  int num_near_layers = 0;      // of a request
  // By layer: requests may have slots there. None: in all of them.
  std::vector<bool> slot_layers = {};
};

// What the tables take on the device, in bytes.
struct SlotTablesBytes {
  int64_t entries = 0;
  int64_t tags = 0;
  int64_t ages = 0;
  int64_t frames = 0;
  int64_t rows = 0;    // which of these a step's requests have, and far pages
  int64_t counts = 0;  // of Fetch

  int64_t total() const {
    return entries + tags + ages + frames + rows + counts;
  }
};
SlotTablesBytes BytesOf(const SlotTablesOptions& options);

// One request of a step, as kv has it.
struct SlotRequest {
  SequenceId sequence;  // open in the ledger; or not: all its pages are whole
  std::span<const KvBlockId> host_pages;  // by page; of whole ones anything
  // Layers that it reads whole: there its pages that are not whole lie in
  // layer blocks that it holds, as the ledger numbers them. By page, for each
  // of these layers; of whole pages anything.
  std::span<const int> near_layers = {};
  std::span<const uint32_t> near_layer_blocks = {};
  // Of the pages that are not whole, those that lie on the device yet.
  std::span<const ReclaimablePage> reclaimable = {};
};

// A page's layer block of one layer, to a layer block of the ledger's: from the
// host, or from the KV block of the device in which it stays reclaimable.
struct NearCopy {
  KvBlockId host;
  int layer = 0;
  uint32_t layer_block = 0;
  KvBlockId reclaimable = kNoKvBlock;
};

// Owns entries, tags, ages and the rows of a step's requests; the slots' bytes
// are layer blocks of the device's pool. Carries out what a SlotLedger decides,
// as edits in the order of one queue. Used by the engine's thread alone;
// nothing is allocated after Create.
//
// A layer's table says of each page that is not whole where it lies, by numbers
// of KV blocks on the host. Numbers behind these stand for layer blocks of the
// device's pool, so a kernel reads a layer that is near from where any other's
// lies; and with kReclaimable they are KV blocks of that pool.
//
// Of a sequence that is closed nothing is cleared: its frames are when they
// come to another. But a page whose tokens are written anew (rolled back) must
// not have been other than whole: entries would lead to the old ones.
class SlotTables {
 public:
  // REQUIRES: sizes are positive; all outlive the tables. Fails where memory
  // does not suffice.
  static Result<std::unique_ptr<SlotTables>> Create(
      Backend& backend, const LayerBlockPool& device, const HostPool& host,
      const SlotTablesOptions& options);

  // One a layer, the same for the tables' life.
  std::span<const SlotTable> layers() const { return layers_; }
  // What Fetch counts, by layer: u32 [max_requests, kNumFetchCounts], zeros
  // after WriteRows.
  std::span<const View> counts() const { return counts_; }
  // The same of all, as bytes.
  View count_bytes() const {
    return counts_bytes_.At(0, Dtype::kUInt8,
                            {static_cast<int64_t>(counts_bytes_.num_bytes())});
  }

  // Row i is requests[i] from here on: what is sent grows with what they have.
  // REQUIRES: there is room for their pages; pages stay reclaimable until the
  // step has been enqueued; what was enqueued up to the call before the last
  // has passed, for its staging memory is used again.
  void WriteRows(Queue& queue, const SlotLedger& ledger,
                 std::span<const SlotRequest> requests);
  // Frames that were added hold nothing. Before the next WriteRows that names
  // their sequence. REQUIRES: as WriteRows.
  void Clear(Queue& queue, const SlotLedger& ledger,
             std::span<const AddedFrames> added);

  // Pages come to layer blocks that their sequence holds. REQUIRES: the host
  // has them, or will have by what was enqueued before.
  void CopyNear(Queue& queue, std::span<const NearCopy> copies) const;

  // On the device, in all.
  size_t num_bytes() const;

 private:
  SlotTables(Backend& backend, const LayerBlockPool& device,
             const HostPool& host, const SlotTablesOptions& options);
  class RowWriter;

  Status Allocate();
  void MakeLayers();
  void WriteRequest(const SlotLedger& ledger, const SlotRequest& request,
                    size_t row, RowWriter& writer) const;
  void FillPlaces();
  // Of addresses that stand for layer blocks, a run for each layer block of a
  // KV block.
  int64_t PlacesAStrip() const;
  int64_t NumPlaces() const;
  uint32_t LayerBlockNumber(uint32_t layer_block) const;
  // What stands for a layer block, in place of a KV block's number, in `layer`.
  uint32_t FarNumber(int layer, uint32_t layer_block) const;
  View WordsOf(const Buffer& buffer, int64_t first, int64_t count) const;

  Backend& backend_;
  const LayerBlockPool& device_;
  const HostPool& host_;
  const SlotTablesOptions options_;
  const int pieces_;  // a page
  Buffer entries_, tags_, ages_, frames_, host_memory_, counts_bytes_;
  Buffer frames_mirror_, zeros_;  // on the host
  Buffer blank_;                  // tags, then ages, of a chunk that is empty
  // Numbers by request, then its rows: of segments, far pages and, layer by
  // layer, chunks and, where a layer is near, its far pages again.
  Buffer rows_;
  std::array<Buffer, 2> staging_;
  size_t turn_ = 0;
  std::vector<SlotTable> layers_;  // [num_layers]
  std::vector<View> counts_;       // [num_layers]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_SLOT_TABLES_H_
