// ByteCapacity: a byte limit that several holders share.
#ifndef WINNOW_SERVE_HTTP_BYTE_CAPACITY_H_
#define WINNOW_SERVE_HTTP_BYTE_CAPACITY_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace winnow {

// Any thread; lives as long as its shares.
class ByteCapacity {
 public:
  // The bytes of one holder; released by the destructor.
  class Share {
   public:
    explicit Share(std::shared_ptr<ByteCapacity> room)
        : room_(std::move(room)) {}
    ~Share() { room_->num_held_ -= num_bytes_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Grows the share to `num_bytes`. False, without a change, if the capacity
    // does not suffice. REQUIRES: no fewer than before; one thread at a time.
    bool Grow(size_t num_bytes);

   private:
    const std::shared_ptr<ByteCapacity> room_;
    size_t num_bytes_ = 0;
  };

  explicit ByteCapacity(size_t max_bytes) : max_bytes_(max_bytes) {}

  size_t max_bytes() const { return max_bytes_; }

 private:
  const size_t max_bytes_;
  std::atomic<size_t> num_held_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_BYTE_CAPACITY_H_
