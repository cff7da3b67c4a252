#include "cache/host/layer_block_pool.h"

#include <limits>
#include <utility>

#include "base/size_text.h"
#include "kv/kv_block_pool.h"

namespace winnow {

static_assert(kMaxKvBlocks <= kNotWhole, "a KV block's id would mean none");

int64_t KvBlockBytes(const HeadBlockFormat& format, int num_layers,
                     int num_kv_heads) {
  return int64_t{num_layers} * num_kv_heads * format.head_block_bytes;
}

Result<int64_t> KvBlocksIn(int64_t num_bytes, int64_t kv_block_bytes,
                           std::string_view field) {
  CHECK(kv_block_bytes > 0, "kv_block_bytes={}", kv_block_bytes);
  const int64_t num_kv_blocks = num_bytes / kv_block_bytes;
  if (num_kv_blocks < 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must hold at least one page of {}, is {}", field,
                     FormatBytes(kv_block_bytes), FormatBytes(num_bytes));
  }
  if (num_kv_blocks > kMaxKvBlocks) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} may hold at most {} pages of {}, is {}", field,
                     kMaxKvBlocks, FormatBytes(kv_block_bytes),
                     FormatBytes(num_bytes));
  }
  return num_kv_blocks;
}

Result<LayerBlockPool> LayerBlockPool::Create(
    Backend& backend, const LayerBlockPoolOptions& options) {
  CHECK(options.num_layers > 0 && options.num_kv_heads > 0 &&
            options.format.head_block_bytes > 0,
        "num_layers={} num_kv_heads={} head_block_bytes={}", options.num_layers,
        options.num_kv_heads, options.format.head_block_bytes);
  CHECK(options.num_kv_blocks > 0 && options.num_kv_blocks <= kMaxKvBlocks,
        "num_kv_blocks={} at most {}", options.num_kv_blocks, kMaxKvBlocks);
  const int64_t kv_block_bytes =
      KvBlockBytes(options.format, options.num_layers, options.num_kv_heads);
  if (options.num_kv_blocks >
      std::numeric_limits<int64_t>::max() / kv_block_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "KV pool: {} pages of {} are more than memory can be",
                     options.num_kv_blocks, FormatBytes(kv_block_bytes));
  }
  const auto num_bytes =
      static_cast<size_t>(options.num_kv_blocks * kv_block_bytes);
  ASSIGN_OR_RETURN(Buffer buffer,
                   backend.Allocate(Tier::kDevice, num_bytes,
                                    fmt::format("KV pool of {} pages of {}",
                                                options.num_kv_blocks,
                                                FormatBytes(kv_block_bytes))));
  return LayerBlockPool(std::move(buffer), options);
}

LayerBlockPool::LayerBlockPool(Buffer buffer,
                               const LayerBlockPoolOptions& options)
    : buffer_(std::move(buffer)), options_(options) {
  const int64_t layer_block_bytes = this->layer_block_bytes();
  switch (options.layout) {
    case PoolLayout::kLayerMajor:
      kv_block_stride_bytes_ = layer_block_bytes;
      layer_stride_bytes_ = options.num_kv_blocks * layer_block_bytes;
      break;
    case PoolLayout::kKvBlockMajor:
      layer_stride_bytes_ = layer_block_bytes;
      kv_block_stride_bytes_ = options.num_layers * layer_block_bytes;
      break;
  }
}

std::byte* LayerBlockPool::Slice(int layer, KvBlockId kv_block,
                                 int head) const {
  CHECK(layer >= 0 && layer < options_.num_layers && head >= 0 &&
            head < options_.num_kv_heads &&
            kv_block.value() < options_.num_kv_blocks,
        "layer={} KV block={} head={}", layer, kv_block.value(), head);
  return layer_blocks(layer) + kv_block.value() * kv_block_stride_bytes_ +
         int64_t{head} * options_.format.head_block_bytes;
}

uint32_t LayerBlockPool::LayerBlockNumber(int layer, KvBlockId kv_block) const {
  const auto layers = static_cast<uint32_t>(options_.num_layers);
  const auto of_layer = static_cast<uint32_t>(layer);
  return options_.layout == PoolLayout::kKvBlockMajor
             ? kv_block.value() * layers + of_layer
             : of_layer * static_cast<uint32_t>(options_.num_kv_blocks) +
                   kv_block.value();
}

}  // namespace winnow
