// The device pool of KV: one buffer, carved into layer blocks once, at
// start-up.
#ifndef WINNOW_CACHE_HOST_LAYER_BLOCK_POOL_H_
#define WINNOW_CACHE_HOST_LAYER_BLOCK_POOL_H_

#include <cstdint>
#include <string_view>

#include "backend/backend.h"
#include "base/ids.h"

namespace winnow {

// Which layer blocks are neighbours: those of one layer, or those of one KV
// block.
enum class PoolLayout : uint8_t { kLayerMajor, kKvBlockMajor };

struct LayerBlockPoolOptions {
  HeadBlockFormat format;
  int num_layers = 0;
  int num_kv_heads = 0;  // of this rank
  int64_t num_kv_blocks = 0;
  // Predicted to be the better one: a layer's attention stays within one part
  // of the address space. Not measured yet.
  PoolLayout layout = PoolLayout::kLayerMajor;
};

// Bytes of a page over all layers and heads.
int64_t KvBlockBytes(const HeadBlockFormat& format, int num_layers,
                     int num_kv_heads);

// How many KV blocks `num_bytes` hold. Fails where that is none, or more than
// ids can name; `field` names the limit in the message.
Result<int64_t> KvBlocksIn(int64_t num_bytes, int64_t kv_block_bytes,
                           std::string_view field);

// Owns the bytes of every KV block on the device; who uses which is kv's to
// say. The slice of (layer, KV block, head) is at base + layer * layer_stride +
// KV block * kv_block_stride + head * head_block_bytes: a layout is two
// numbers. Slices do not overlap and leave no gap. Addresses do not change when
// it is moved.
class LayerBlockPool {
 public:
  // Fails with kResourceExhausted where the device has not the memory.
  // REQUIRES: sizes are positive, num_kv_blocks <= kMaxKvBlocks.
  static Result<LayerBlockPool> Create(Backend& backend,
                                       const LayerBlockPoolOptions& options);

  // The first layer block of a layer, whose others follow at
  // kv_block_stride_bytes().
  std::byte* layer_blocks(int layer) const {
    return buffer_.data() + layer * layer_stride_bytes_;
  }
  std::byte* Slice(int layer, KvBlockId kv_block, int head) const;
  // Layer blocks are numbered as they lie: layer block i is at
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
