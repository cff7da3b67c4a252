// The host's pool of KV: whole pages that left the device, or lie there too.
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

// A page's bytes, from one pool of the host to another.
struct HostCopy {
  KvBlockId from;
  KvBlockId to;
};

struct HostPoolOptions {
  int64_t num_kv_blocks = 0;
  // Memory that a device can reach is taken in pieces of at most so much, and
  // of one KV block at least: a driver pins a piece in one go.
  int64_t max_piece_bytes = int64_t{4} << 30;
};

// Owns the bytes of every KV block on the host; who uses which is kv's to say.
// block-major: a KV block is one piece, layer after layer of the device's
// layer blocks, so [layer, head, slice], the same bytes in the same order
// whatever the device's layout: what is stored elsewhere is read from here as
// it is. Used by the engine's thread alone; nothing is allocated after Create.
//
// Copies are enqueued. A KV block's bytes are there for the host's own eyes
// once the queue has come as far (Backend::Wait), and the host writes none that
// a copy under way still reads.
class HostPool {
 public:
  // For KV blocks of `device`; a pool of none allocates nothing, and stands for
  // a host without a pool. REQUIRES: num_kv_blocks is not negative and
  // max_piece_bytes positive; backend and device outlive the pool. Fails where
  // memory does not suffice.
  static Result<std::unique_ptr<HostPool>> Create(
      Backend& backend, const LayerBlockPool& device,
      const HostPoolOptions& options);

  // Carries out kv's decisions in their order. REQUIRES: KV blocks are of the
  // two pools.
  void Apply(Queue& queue, std::span<const TierCopy> copies) const;

  // KV blocks of this pool become such of another. REQUIRES: theirs are as
  // large.
  void CopyTo(Queue& queue, const HostPool& to,
              std::span<const HostCopy> copies) const;

  View KvBlock(KvBlockId kv_block) const;  // u8 [kv_block_bytes]
  int64_t kv_block_bytes() const { return layer_block_bytes_ * num_layers_; }
  int64_t num_kv_blocks() const { return num_kv_blocks_; }
  // The pieces of memory: how many, and of how many KV blocks each.
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
