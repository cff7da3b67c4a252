// SlotTables: the state of cache slots on a device, and the tables that lead to
// the slots and to the host.
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
  int max_requests = 0;       // in one step
  int64_t num_far_pages = 0;  // offloaded pages of all requests of a step
  // Resident and offloaded pages of all requests of a step.
  int64_t num_table_pages = 0;
  int max_frames = 0;       // slot blocks of a request in one layer
  int num_near_layers = 0;  // dense layers of a request
  // By layer: true if requests may have cache slots there. Empty: in all
  // layers.
  std::vector<bool> slot_layers = {};
};

// Bytes of the tables on the device.
struct SlotTablesBytes {
  int64_t entries = 0;
  int64_t tags = 0;
  int64_t ages = 0;
  int64_t frames = 0;
  int64_t rows = 0;  // the rows of a step's requests, and their offloaded pages
  int64_t counts = 0;  // of Fetch

  int64_t total() const {
    return entries + tags + ages + frames + rows + counts;
  }
};
SlotTablesBytes BytesOf(const SlotTablesOptions& options);

// One request of a step, by the state of kv.
struct SlotRequest {
  SequenceId sequence;  // open in the ledger, unless all its pages are resident
  std::span<const KvBlockId>
      host_pages;  // by page; any value for a resident page
  // Dense layers of the request. There its offloaded pages lie in layer blocks
  // that it holds, numbered by the ledger. By page, for each of these layers;
  // any value for a resident page.
  std::span<const int> near_layers = {};
  std::span<const uint32_t> near_layer_blocks = {};
  // Offloaded pages whose bytes still lie on the device.
  std::span<const ReclaimablePage> reclaimable = {};
};

// Copies one layer of a page into a layer block of the ledger. The source is
// the host, or the KV block of the device in which the page stays reclaimable.
struct NearCopy {
  KvBlockId host;
  int layer = 0;
  uint32_t layer_block = 0;
  KvBlockId reclaimable = kNoKvBlock;
};

// Owns entries, tags, ages and the rows of a step's requests. The bytes of
// cache slots are layer blocks of the device's pool. Carries out the decisions
// of a SlotLedger as edits in the order of one queue. Used by the engine's
// thread alone; nothing is allocated after Create.
//
// A layer's table gives the address of each offloaded page as the number of a
// KV block on the host. Greater numbers stand for layer blocks of the device's
// pool. Hence a kernel reads a dense layer from the device by the same table.
// Numbers with kReclaimable are KV blocks of the device's pool.
//
// Closing a sequence clears nothing. Its slot blocks are cleared when another
// sequence gets them. A page whose tokens are written anew after a rollback
// must never have been offloaded, because its entries would lead to the old
// tokens.
class SlotTables {
 public:
  // REQUIRES: sizes are positive; all arguments outlive the tables. Fails with
  // kResourceExhausted if memory does not suffice.
  static Result<std::unique_ptr<SlotTables>> Create(
      Backend& backend, const LayerBlockPool& device, const HostPool& host,
      const SlotTablesOptions& options);

  // One for each layer, constant for the tables' life.
  std::span<const SlotTable> layers() const { return layers_; }
  // Counts of Fetch by layer: u32 [max_requests, kNumFetchCounts], zeros after
  // WriteRows.
  std::span<const View> counts() const { return counts_; }
  // The counts of all layers, as bytes.
  View count_bytes() const {
    return counts_bytes_.At(0, Dtype::kUInt8,
                            {static_cast<int64_t>(counts_bytes_.num_bytes())});
  }

  // Makes row i describe requests[i]. The bytes sent grow with the pages of the
  // requests. REQUIRES: their pages fit; reclaimable pages stay so until the
  // step has been enqueued. Work enqueued up to the call before the last has
  // finished, because its staging memory is reused.
  void WriteRows(Queue& queue, const SlotLedger& ledger,
                 std::span<const SlotRequest> requests);
  // Marks added slot blocks as empty. Call before the next WriteRows that names
  // their sequence. REQUIRES: as WriteRows.
  void Clear(Queue& queue, const SlotLedger& ledger,
             std::span<const AddedFrames> added);

  // Copies pages into layer blocks that their sequence holds. REQUIRES: the
  // host has the pages, or will have them by work enqueued before.
  void CopyNear(Queue& queue, std::span<const NearCopy> copies) const;

  // Bytes on the device in total.
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
  // Numbers that stand for layer blocks: one run for each layer block of a KV
  // block.
  int64_t PlacesAStrip() const;
  int64_t NumPlaces() const;
  uint32_t LayerBlockNumber(uint32_t layer_block) const;
  // The number that stands for a layer block in `layer`, in place of a KV
  // block's number.
  uint32_t FarNumber(int layer, uint32_t layer_block) const;
  View WordsOf(const Buffer& buffer, int64_t first, int64_t count) const;

  Backend& backend_;
  const LayerBlockPool& device_;
  const HostPool& host_;
  const SlotTablesOptions options_;
  const int pieces_;  // sub-pages in a page
  Buffer entries_, tags_, ages_, frames_, host_memory_, counts_bytes_;
  Buffer frames_mirror_, zeros_;  // on the host
  Buffer blank_;                  // tags, then ages, of an empty chunk
  // By request: numbers of rows, then the rows. There are rows of segments and
  // offloaded pages, then for each layer chunks and, in a dense layer, the
  // offloaded pages again.
  Buffer rows_;
  std::array<Buffer, 2> staging_;
  size_t turn_ = 0;
  std::vector<SlotTable> layers_;  // [num_layers]
  std::vector<View> counts_;       // [num_layers]
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_SLOT_TABLES_H_
