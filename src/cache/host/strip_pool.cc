#include "cache/host/strip_pool.h"

#include <limits>
#include <utility>

#include "base/size_text.h"
#include "kv/extent_pool.h"

namespace winnow {

static_assert(kMaxExtents <= kNotWhole, "an extent's id would mean none");

int64_t ExtentBytes(const SliceFormat& format, int num_layers,
                    int num_kv_heads) {
  return int64_t{num_layers} * num_kv_heads * format.slice_bytes;
}

Result<int64_t> ExtentsIn(int64_t num_bytes, int64_t extent_bytes,
                          std::string_view field) {
  CHECK(extent_bytes > 0, "extent_bytes={}", extent_bytes);
  const int64_t num_extents = num_bytes / extent_bytes;
  if (num_extents < 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must hold at least one page of {}, is {}", field,
                     FormatBytes(extent_bytes), FormatBytes(num_bytes));
  }
  if (num_extents > kMaxExtents) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} may hold at most {} pages of {}, is {}", field,
                     kMaxExtents, FormatBytes(extent_bytes),
                     FormatBytes(num_bytes));
  }
  return num_extents;
}

Result<StripPool> StripPool::Create(Backend& backend,
                                    const StripPoolOptions& options) {
  CHECK(options.num_layers > 0 && options.num_kv_heads > 0 &&
            options.format.slice_bytes > 0,
        "num_layers={} num_kv_heads={} slice_bytes={}", options.num_layers,
        options.num_kv_heads, options.format.slice_bytes);
  CHECK(options.num_extents > 0 && options.num_extents <= kMaxExtents,
        "num_extents={} at most {}", options.num_extents, kMaxExtents);
  const int64_t extent_bytes =
      ExtentBytes(options.format, options.num_layers, options.num_kv_heads);
  if (options.num_extents >
      std::numeric_limits<int64_t>::max() / extent_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "KV pool: {} pages of {} are more than memory can be",
                     options.num_extents, FormatBytes(extent_bytes));
  }
  const auto num_bytes =
      static_cast<size_t>(options.num_extents * extent_bytes);
  ASSIGN_OR_RETURN(Buffer buffer,
                   backend.Allocate(Tier::kDevice, num_bytes,
                                    fmt::format("KV pool of {} pages of {}",
                                                options.num_extents,
                                                FormatBytes(extent_bytes))));
  return StripPool(std::move(buffer), options);
}

StripPool::StripPool(Buffer buffer, const StripPoolOptions& options)
    : buffer_(std::move(buffer)), options_(options) {
  const int64_t strip_bytes = this->strip_bytes();
  switch (options.layout) {
    case PoolLayout::kLayerMajor:
      extent_stride_bytes_ = strip_bytes;
      layer_stride_bytes_ = options.num_extents * strip_bytes;
      break;
    case PoolLayout::kExtentMajor:
      layer_stride_bytes_ = strip_bytes;
      extent_stride_bytes_ = options.num_layers * strip_bytes;
      break;
  }
}

std::byte* StripPool::Slice(int layer, ExtentId extent, int head) const {
  CHECK(layer >= 0 && layer < options_.num_layers && head >= 0 &&
            head < options_.num_kv_heads &&
            extent.value() < options_.num_extents,
        "layer={} extent={} head={}", layer, extent.value(), head);
  return strips(layer) + extent.value() * extent_stride_bytes_ +
         int64_t{head} * options_.format.slice_bytes;
}

uint32_t StripPool::StripNumber(int layer, ExtentId extent) const {
  const auto layers = static_cast<uint32_t>(options_.num_layers);
  const auto of_layer = static_cast<uint32_t>(layer);
  return options_.layout == PoolLayout::kExtentMajor
             ? extent.value() * layers + of_layer
             : of_layer * static_cast<uint32_t>(options_.num_extents) +
                   extent.value();
}

}  // namespace winnow
