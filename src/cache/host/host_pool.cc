#include "cache/host/host_pool.h"

#include <algorithm>

#include "base/size_text.h"

namespace winnow {

Result<std::unique_ptr<HostPool>> HostPool::Create(
    Backend& backend, const LayerBlockPool& device,
    const HostPoolOptions& options) {
  CHECK(options.num_kv_blocks >= 0 && options.max_piece_bytes > 0,
        "num_kv_blocks={} max_piece_bytes={}", options.num_kv_blocks,
        options.max_piece_bytes);
  std::unique_ptr<HostPool> pool(new HostPool(backend, device, options));
  RETURN_IF_ERROR(pool->Allocate(options.max_piece_bytes));
  return pool;
}

HostPool::HostPool(Backend& backend, const LayerBlockPool& device,
                   const HostPoolOptions& options)
    : backend_(backend),
      device_(device),
      num_kv_blocks_(options.num_kv_blocks),
      num_layers_(device.options().num_layers),
      layer_block_bytes_(int64_t{device.options().num_kv_heads} *
                         device.options().format.head_block_bytes) {}

Status HostPool::Allocate(int64_t max_piece_bytes) {
  kv_blocks_per_piece_ =
      std::max<int64_t>(1, max_piece_bytes / kv_block_bytes());
  for (int64_t first = 0; first < num_kv_blocks_;
       first += kv_blocks_per_piece_) {
    const int64_t count =
        std::min(kv_blocks_per_piece_, num_kv_blocks_ - first);
    ASSIGN_OR_RETURN(
        Buffer piece,
        backend_.Allocate(
            Tier::kHost, static_cast<size_t>(count * kv_block_bytes()),
            fmt::format("host KV pool of {} pages of {}", num_kv_blocks_,
                        FormatBytes(kv_block_bytes()))));
    pieces_.push_back(std::move(piece));
  }
  return Ok{};
}

View HostPool::KvBlock(KvBlockId kv_block) const {
  CHECK(kv_block.value() < num_kv_blocks_, "host KV block={} num_kv_blocks={}",
        kv_block.value(), num_kv_blocks_);
  const Buffer& piece =
      pieces_[static_cast<size_t>(kv_block.value() / kv_blocks_per_piece_)];
  const int64_t offset =
      kv_block.value() % kv_blocks_per_piece_ * kv_block_bytes();
  return piece.At(static_cast<size_t>(offset), Dtype::kUInt8,
                  {kv_block_bytes()});
}

void HostPool::Apply(Queue& queue, std::span<const TierCopy> copies) const {
  for (const TierCopy& copy : copies) {
    const View host = KvBlock(copy.host);
    for (int layer = 0; layer < num_layers_; ++layer) {
      const View layer_block = MakeView(device_.Slice(layer, copy.device, 0),
                                        Dtype::kUInt8, {layer_block_bytes_});
      const View piece =
          host.Slice(layer * layer_block_bytes_, layer_block_bytes_);
      if (copy.direction == TierCopy::Direction::kToHost) {
        backend_.Copy(queue, layer_block, piece);
      } else {
        backend_.Copy(queue, piece, layer_block);
      }
    }
  }
}

void HostPool::CopyTo(Queue& queue, const HostPool& to,
                      std::span<const HostCopy> copies) const {
  for (const HostCopy& copy : copies) {
    backend_.Copy(queue, KvBlock(copy.from), to.KvBlock(copy.to));
  }
}

}  // namespace winnow
