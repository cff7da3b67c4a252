// HostPool: the KV on the host, in KV blocks. Their pages are offloaded, or
// have a copy on the device.
#ifndef WINNOW_CACHE_HOST_HOST_POOL_H_
#define WINNOW_CACHE_HOST_HOST_POOL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"
#include "cache/host/layer_block_pool.h"
#include "kv/growth.h"

namespace winnow {

// Copies a page's bytes from one host pool to another.
struct HostCopy {
  KvBlockId from;
  KvBlockId to;
};

struct HostPoolOptions {
  int64_t num_kv_blocks = 0;
  // Memory that a device can reach is allocated in parts of at most this size,
  // and of at least one KV block. A driver pins a part in one call.
  int64_t max_piece_bytes = int64_t{4} << 30;
};

// Owns the bytes of every KV block on the host; kv assigns them to pages. The
// layout is block-major: [layer, head, head block] for each KV block, whatever
// the device's layout. Hence other stores can read a KV block as one range of
// bytes. Used by the engine's thread alone; nothing is allocated after Create.
//
// Copies are enqueued. The CPU may read a KV block once the queue has reached
// that point (Backend::Wait). The CPU writes no KV block that a copy in flight
// still reads.
class HostPool {
 public:
  // Makes a pool for KV blocks of `device`. A pool of no KV blocks allocates
  // nothing and stands for an absent host tier. REQUIRES: num_kv_blocks is not
  // negative and max_piece_bytes is positive; backend and device outlive the
  // pool. Fails with kResourceExhausted if memory does not suffice.
  static Result<std::unique_ptr<HostPool>> Create(
      Backend& backend, const LayerBlockPool& device,
      const HostPoolOptions& options);

  // Carries out kv's copies in their order. REQUIRES: KV blocks are of the two
  // pools.
  void Apply(Queue& queue, std::span<const TierCopy> copies) const;

  // Copies KV blocks of this pool to another. REQUIRES: both have equal
  // kv_block_bytes().
  void CopyTo(Queue& queue, const HostPool& to,
              std::span<const HostCopy> copies) const;

  View KvBlock(KvBlockId kv_block) const;  // u8 [kv_block_bytes]
  int64_t kv_block_bytes() const { return layer_block_bytes_ * num_layers_; }
  int64_t num_kv_blocks() const { return num_kv_blocks_; }
  // The number of memory parts, and the KV blocks in each.
  int64_t num_pieces() const { return std::ssize(pieces_); }
  int64_t kv_blocks_per_piece() const { return kv_blocks_per_piece_; }

 private:
  HostPool(Backend& backend, const LayerBlockPool& device,
           const HostPoolOptions& options);
  Status Allocate(int64_t max_piece_bytes);

  Backend& backend_;
  const LayerBlockPool& device_;
  const int64_t num_kv_blocks_;
  const int num_layers_;
  const int64_t layer_block_bytes_;
  int64_t kv_blocks_per_piece_ = 0;
  std::vector<Buffer> pieces_;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_HOST_HOST_POOL_H_
