// LayerBlockPool: the KV on a device, one buffer that is carved into layer
// blocks at start-up.
#ifndef WINNOW_CACHE_HOST_LAYER_BLOCK_POOL_H_
#define WINNOW_CACHE_HOST_LAYER_BLOCK_POOL_H_

#include <cstdint>
#include <string_view>

#include "backend/backend.h"
#include "base/ids.h"

namespace winnow {

// Which layer blocks are neighbours: those of a layer, or those of a KV block.
enum class PoolLayout : uint8_t { kLayerMajor, kKvBlockMajor };

struct LayerBlockPoolOptions {
  HeadBlockFormat format;
  int num_layers = 0;
  int num_kv_heads = 0;  // of this rank
  int64_t num_kv_blocks = 0;
  // Expected to be the faster one, because a layer's attention stays within one
  // range of addresses. Not measured yet.
  PoolLayout layout = PoolLayout::kLayerMajor;
};

// Bytes of a page over all layers and heads.
int64_t KvBlockBytes(const HeadBlockFormat& format, int num_layers,
                     int num_kv_heads);

// The number of KV blocks that fit in `num_bytes`. Fails if that is none, or
// more than ids can name. `field` names the limit in the message.
Result<int64_t> KvBlocksIn(int64_t num_bytes, int64_t kv_block_bytes,
                           std::string_view field);

// Owns the bytes of every KV block on the device; kv assigns them to pages. The
// head block of (layer, KV block, head) is at base + layer * layer_stride + KV
// block * kv_block_stride + head * head_block_bytes, so a layout is two
// numbers. Head blocks do not overlap and leave no gap. A move of the pool
// changes no address.
class LayerBlockPool {
 public:
  // Fails with kResourceExhausted if device memory does not suffice. REQUIRES:
  // sizes are positive, num_kv_blocks <= kMaxKvBlocks.
  static Result<LayerBlockPool> Create(Backend& backend,
                                       const LayerBlockPoolOptions& options);

  // The first layer block of a layer. The others follow at distances of
  // kv_block_stride_bytes().
  std::byte* layer_blocks(int layer) const {
    return buffer_.data() + layer * layer_stride_bytes_;
  }
  std::byte* Slice(int layer, KvBlockId kv_block, int head) const;
  // The number of a layer block in memory order. Layer block i is at
  // layer_blocks(0) + i * layer_block_bytes(), whatever the layout.
  uint32_t LayerBlockNumber(int layer, KvBlockId kv_block) const;
  int64_t layer_block_bytes() const {
    return int64_t{options_.num_kv_heads} * options_.format.head_block_bytes;
  }

  int64_t layer_stride_bytes() const { return layer_stride_bytes_; }
  int64_t kv_block_stride_bytes() const { return kv_block_stride_bytes_; }
  const LayerBlockPoolOptions& options() const { return options_; }
  size_t num_bytes() const { return buffer_.num_bytes(); }

 private:
  LayerBlockPool(Buffer buffer, const LayerBlockPoolOptions& options);

  Buffer buffer_;
  LayerBlockPoolOptions options_;
  int64_t layer_stride_bytes_ = 0;
  int64_t kv_block_stride_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_HOST_LAYER_BLOCK_POOL_H_
