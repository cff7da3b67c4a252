// DeviceCache: the KV on a device, which is the pool and the tables that lead
// to it.
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

// Options of the page table beside the pool.
DevicePageTableOptions TableOf(const DeviceCacheOptions& options);

// Owns the KV's bytes on one device and carries out the decisions of kv/. Each
// is an edit in the order of one queue: a step sees the tables and copies
// enqueued before it. Used by the engine's thread alone; nothing is allocated
// after Create. No other class knows where a byte lies: the model gets layers()
// and passes them to the ops.
class DeviceCache {
 public:
  // REQUIRES: sizes are positive; the backend outlives the cache. Fails with
  // kResourceExhausted if memory does not suffice.
  static Result<std::unique_ptr<DeviceCache>> Create(
      Backend& backend, const DeviceCacheOptions& options);

  // One for each layer, constant for the cache's life. The content of their
  // page table changes in the queue's order.
  std::span<const LayerCache> layers() const { return layers_; }

  // Makes row i of the page table pages[i]. A row belongs to the i-th request
  // of the step, not to a sequence. Returns the number of entries sent.
  // REQUIRES: as DevicePageTable::Write; KV blocks are of this pool.
  int64_t WriteTables(Queue& queue,
                      std::span<const std::span<const KvBlockId>> pages);
  // Copies pages, before the step that writes into the copies. REQUIRES: at
  // most max_requests copies; no KV block is a target twice, or both target and
  // source.
  void Apply(Queue& queue, std::span<const KvBlockCopy> copies);

  const LayerBlockPool& pool() const { return pool_; }
  int64_t num_table_pages() const { return table_.rows().entries.dim(0); }
  // Bytes on the device in total.
  size_t num_bytes() const { return pool_.num_bytes() + table_.num_bytes(); }

 private:
  DeviceCache(Backend& backend, const DeviceCacheOptions& options,
              LayerBlockPool pool, DevicePageTable table);

  Backend& backend_;
  LayerBlockPool pool_;
  DevicePageTable table_;
  std::vector<LayerCache> layers_;  // [num_layers]
  std::vector<PageCopy>
      copies_;  // capacity for max_requests, one copy a sequence
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DEVICE_DEVICE_CACHE_H_
