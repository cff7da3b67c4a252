#include "cache/host/host_pool.h"

#include <algorithm>

#include "base/size_text.h"

namespace winnow {

Result<std::unique_ptr<HostPool>> HostPool::Create(
    Backend& backend, const StripPool& device, const HostPoolOptions& options) {
  CHECK(options.num_extents > 0 && options.max_piece_bytes > 0,
        "num_extents={} max_piece_bytes={}", options.num_extents,
        options.max_piece_bytes);
  std::unique_ptr<HostPool> pool(new HostPool(backend, device, options));
  RETURN_IF_ERROR(pool->Allocate(options.max_piece_bytes));
  return pool;
}

HostPool::HostPool(Backend& backend, const StripPool& device,
                   const HostPoolOptions& options)
    : backend_(backend),
      device_(device),
      num_extents_(options.num_extents),
      num_layers_(device.options().num_layers),
      strip_bytes_(int64_t{device.options().num_kv_heads} *
                   device.options().format.slice_bytes) {}

Status HostPool::Allocate(int64_t max_piece_bytes) {
  extents_per_piece_ = std::max<int64_t>(1, max_piece_bytes / extent_bytes());
  for (int64_t first = 0; first < num_extents_; first += extents_per_piece_) {
    const int64_t count = std::min(extents_per_piece_, num_extents_ - first);
    ASSIGN_OR_RETURN(
        Buffer piece,
        backend_.Allocate(
            Tier::kHost, static_cast<size_t>(count * extent_bytes()),
            fmt::format("host KV pool of {} pages of {}", num_extents_,
                        FormatBytes(extent_bytes()))));
    pieces_.push_back(std::move(piece));
  }
  return Ok{};
}

View HostPool::Extent(ExtentId extent) const {
  CHECK(extent.value() < num_extents_, "host extent={} num_extents={}",
        extent.value(), num_extents_);
  const Buffer& piece =
      pieces_[static_cast<size_t>(extent.value() / extents_per_piece_)];
  const int64_t offset = extent.value() % extents_per_piece_ * extent_bytes();
  return piece.At(static_cast<size_t>(offset), Dtype::kUInt8, {extent_bytes()});
}

void HostPool::Apply(Queue& queue, std::span<const TierCopy> copies) const {
  for (const TierCopy& copy : copies) {
    const View host = Extent(copy.host);
    for (int layer = 0; layer < num_layers_; ++layer) {
      const View strip = MakeView(device_.Slice(layer, copy.device, 0),
                                  Dtype::kUInt8, {strip_bytes_});
      const View piece = host.Slice(layer * strip_bytes_, strip_bytes_);
      if (copy.direction == TierCopy::Direction::kToHost) {
        backend_.Copy(queue, strip, piece);
      } else {
        backend_.Copy(queue, piece, strip);
      }
    }
  }
}

void HostPool::CopyTo(Queue& queue, const HostPool& to,
                      std::span<const HostCopy> copies) const {
  for (const HostCopy& copy : copies) {
    backend_.Copy(queue, Extent(copy.from), to.Extent(copy.to));
  }
}

}  // namespace winnow
