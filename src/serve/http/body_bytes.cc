#include "serve/http/body_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace winnow {

BodyBytes::BodyBytes(std::shared_ptr<ByteCapacity> room)
    : share_(room == nullptr
                 ? nullptr
                 : std::make_unique<ByteCapacity::Share>(std::move(room))) {}

BodyBytes::~BodyBytes() {
  if (data_ != nullptr) munmap(data_, held_bytes_);
}

BodyBytes::BodyBytes(BodyBytes&& other) noexcept
    : share_(std::move(other.share_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      held_bytes_(std::exchange(other.held_bytes_, 0)) {}

BodyBytes& BodyBytes::operator=(BodyBytes&& other) noexcept {
  std::swap(share_, other.share_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(held_bytes_, other.held_bytes_);
  return *this;
}

size_t BodyBytes::HeldBytesOf(size_t num_bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (num_bytes + page - 1) / page * page;
}

std::errc BodyBytes::Append(std::string_view bytes) {
  if (bytes.empty()) return {};
  const size_t size = size_ + bytes.size();
  if (size > held_bytes_) {
    const size_t held = HeldBytesOf(size);
    if (share_ != nullptr && size > kLongBodyBytes && !share_->Grow(held)) {
      return std::errc::no_buffer_space;
    }
    void* const data =
        data_ == nullptr
            ? mmap(nullptr, held, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0)
            : mremap(data_, held_bytes_, held, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) return std::errc::not_enough_memory;
    data_ = static_cast<char*>(data);
    held_bytes_ = held;
  }
  std::ranges::copy(bytes, data_ + size_);
  size_ = size;
  return {};
}

}  // namespace winnow
