// Buffer: owns bytes in one tier.
#ifndef WINNOW_TENSOR_BUFFER_H_
#define WINNOW_TENSOR_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "tensor/view.h"

namespace winnow {

// Where bytes live. kDevice is the backend's own memory (for the CPU backend
// that is plain memory too); kHost is host memory that the device can reach.
enum class Tier : uint8_t { kDevice, kHost, kDisk };

// An owned block of bytes in one tier. Moved, never copied: a copy names its
// queue (Backend::Copy). Made by a Backend, or by AllocateHost where none is at
// hand. Frees itself. REQUIRES of its owner: no step in flight uses it then.
class Buffer {
 public:
  using Free = std::function<void(std::byte* data, size_t num_bytes)>;

  Buffer() = default;
  Buffer(Tier tier, std::byte* data, size_t num_bytes, Free free)
      : tier_(tier),
        data_(data),
        num_bytes_(num_bytes),
        free_(std::move(free)) {}
  Buffer(Buffer&& other) noexcept { Swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) free_(data_, num_bytes_);
  }

  // Plain memory, zeroed, aligned to 64 bytes; above 8 MiB pages are touched on
  // first use. Fails with kResourceExhausted, naming `purpose`.
  static Result<Buffer> AllocateHost(size_t num_bytes,
                                     std::string_view purpose);

  Tier tier() const { return tier_; }
  std::byte* data() const { return data_; }
  size_t num_bytes() const { return num_bytes_; }

  // A view of `shape` that starts `offset_bytes` into the buffer. CHECKs that
  // it fits.
  View At(size_t offset_bytes, Dtype dtype,
          std::initializer_list<int64_t> shape) const;

 private:
  void Swap(Buffer& other) noexcept;

  Tier tier_ = Tier::kHost;
  std::byte* data_ = nullptr;
  size_t num_bytes_ = 0;
  Free free_;
};

}  // namespace winnow

#endif  // WINNOW_TENSOR_BUFFER_H_
