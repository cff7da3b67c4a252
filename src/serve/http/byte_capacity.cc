#include "serve/http/byte_capacity.h"

#include "base/check.h"

namespace winnow {

bool ByteCapacity::Share::Grow(size_t num_bytes) {
  CHECK(num_bytes >= num_bytes_, "bytes={} held={}", num_bytes, num_bytes_);
  const size_t num_more = num_bytes - num_bytes_;
  size_t num_held = room_->num_held_;
  do {
    if (num_more > room_->max_bytes_ - num_held) return false;
  } while (
      !room_->num_held_.compare_exchange_weak(num_held, num_held + num_more));
  num_bytes_ = num_bytes;
  return true;
}

}  // namespace winnow
