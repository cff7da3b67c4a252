// What lies on a device of the KV: the pool, and the tables that lead to it.
#ifndef WINNOW_CACHE_DEVICE_DEVICE_CACHE_H_
#define WINNOW_CACHE_DEVICE_DEVICE_CACHE_H_

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "cache/device/device_page_table.h"
#include "cache/host/layer_block_pool.h"
#include "kv/growth.h"

namespace winnow {

struct DeviceCacheOptions {
  HeadBlockFormat format;
  int num_layers = 0;
  int num_kv_heads = 0;  // of this rank
  int64_t num_kv_blocks = 0;
  int max_requests = 0;  // in one step
  int max_pages_per_request = 0;
  int64_t num_table_pages = 0;  // of all requests of a step
  PoolLayout layout = PoolLayout::kLayerMajor;
};

// Of the table beside the pool.
DevicePageTableOptions TableOf(const DeviceCacheOptions& options);

// Owns the KV's bytes on one device and carries out what kv/ decides, as edits
// in the order of one queue: a step sees the tables and copies that were
// enqueued before it. Used by the engine's thread alone; nothing is allocated
// after Create. Nobody else knows where a byte lies: the model is handed
// layers() and passes them on to the ops.
class DeviceCache {
 public:
  // REQUIRES: sizes are positive; the backend outlives the cache. Fails where
  // memory does not suffice.
  static Result<std::unique_ptr<DeviceCache>> Create(
      Backend& backend, const DeviceCacheOptions& options);

  // One a layer. They stay as they are for the cache's life; what their page
  // table says changes in the queue's order.
  std::span<const LayerCache> layers() const { return layers_; }

  // Row i of the page table is pages[i] from here on: a row belongs to the
  // i-th request of the step, not to a sequence. Returns how many entries were
  // sent. REQUIRES: as DevicePageTable::Write; KV blocks are of this pool.
  int64_t WriteTables(Queue& queue,
                      std::span<const std::span<const KvBlockId>> pages);
  // Copies pages, before the step that writes into the copies.
  // REQUIRES: at most max_requests; targets are distinct and no sources.
  void Apply(Queue& queue, std::span<const KvBlockCopy> copies);

  const LayerBlockPool& pool() const { return pool_; }
  int64_t num_table_pages() const { return table_.rows().entries.dim(0); }
  // On the device, in all.
  size_t num_bytes() const { return pool_.num_bytes() + table_.num_bytes(); }

 private:
  DeviceCache(Backend& backend, const DeviceCacheOptions& options,
              LayerBlockPool pool, DevicePageTable table);

  Backend& backend_;
  LayerBlockPool pool_;
  DevicePageTable table_;
  std::vector<LayerCache> layers_;  // [num_layers]
  std::vector<PageCopy> copies_;    // room for max_requests, one a sequence
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_DEVICE_CACHE_H_
