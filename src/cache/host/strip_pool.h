// The device pool of KV: one buffer, carved into strips once, at start-up.
#ifndef WINNOW_CACHE_HOST_STRIP_POOL_H_
#define WINNOW_CACHE_HOST_STRIP_POOL_H_

#include <cstdint>
#include <string_view>

#include "backend/backend.h"
#include "base/ids.h"

namespace winnow {

// Which strips are neighbours: those of one layer, or those of one extent.
enum class PoolLayout : uint8_t { kLayerMajor, kExtentMajor };

struct StripPoolOptions {
  SliceFormat format;
  int num_layers = 0;
  int num_kv_heads = 0;  // of this rank
  int64_t num_extents = 0;
  // Predicted to be the better one: a layer's attention stays within one part
  // of the address space. Not measured yet.
  PoolLayout layout = PoolLayout::kLayerMajor;
};

// Bytes of a page over all layers and heads.
int64_t ExtentBytes(const SliceFormat& format, int num_layers,
                    int num_kv_heads);

// How many extents `num_bytes` hold. Fails where that is none, or more than
// ids can name; `field` names the limit in the message.
Result<int64_t> ExtentsIn(int64_t num_bytes, int64_t extent_bytes,
                          std::string_view field);

// Owns the bytes of every extent on the device; who uses which is kv's to say.
// The slice of (layer, extent, head) is at base + layer * layer_stride +
// extent * extent_stride + head * slice_bytes: a layout is two numbers. Slices
// do not overlap and leave no gap. Addresses do not change when it is moved.
class StripPool {
 public:
  // Fails with kResourceExhausted where the device has not the memory.
  // REQUIRES: sizes are positive, num_extents <= kMaxExtents.
  static Result<StripPool> Create(Backend& backend,
                                  const StripPoolOptions& options);

  // The first strip of a layer, whose others follow at extent_stride_bytes().
  std::byte* strips(int layer) const {
    return buffer_.data() + layer * layer_stride_bytes_;
  }
  std::byte* Slice(int layer, ExtentId extent, int head) const;
  // Strips are numbered as they lie: strip i is at strips(0) + i *
  // strip_bytes(), whatever the layout.
  uint32_t StripNumber(int layer, ExtentId extent) const;
  int64_t strip_bytes() const {
    return int64_t{options_.num_kv_heads} * options_.format.slice_bytes;
  }

  int64_t layer_stride_bytes() const { return layer_stride_bytes_; }
  int64_t extent_stride_bytes() const { return extent_stride_bytes_; }
  const StripPoolOptions& options() const { return options_; }
  size_t num_bytes() const { return buffer_.num_bytes(); }

 private:
  StripPool(Buffer buffer, const StripPoolOptions& options);

  Buffer buffer_;
  StripPoolOptions options_;
  int64_t layer_stride_bytes_ = 0;
  int64_t extent_stride_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_HOST_STRIP_POOL_H_
