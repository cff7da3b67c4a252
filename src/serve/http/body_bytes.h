// BodyBytes: a request's body while it comes, in memory that is counted.
#ifndef WINNOW_SERVE_HTTP_BODY_BYTES_H_
#define WINNOW_SERVE_HTTP_BODY_BYTES_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <system_error>

#include "serve/http/byte_capacity.h"

namespace winnow {

// A body of no more is read and encoded within milliseconds, tens of them at
// most; one of more is long.
inline constexpr size_t kLongBodyBytes = size_t{64} << 10;

// Owns pages of memory that grow where they lie or move without a copy, so what
// it holds is at no time more than its bytes and the rest of their last page,
// however they come, and goes back to the system with it. (A string that grows
// has up to twice its bytes, and while it is copied three times; one that
// reserves what a header announces has what nobody may send.) Of a long one
// that is counted in the room.
class BodyBytes {
 public:
  // Null: it counts nowhere.
  explicit BodyBytes(std::shared_ptr<ByteCapacity> room = nullptr);
  ~BodyBytes();
  BodyBytes(BodyBytes&& other) noexcept;
  BodyBytes& operator=(BodyBytes&& other) noexcept;

  // What whole pages of memory take for so many bytes.
  static size_t HeldBytesOf(size_t num_bytes);

  // Behind what is there. Else it stays as before: no_buffer_space where there
  // is no room for it, not_enough_memory where the system has none.
  std::errc Append(std::string_view bytes);
  // Until it grows or ends.
  std::string_view view() const { return {data_, size_}; }
  size_t held_bytes() const { return held_bytes_; }

 private:
  std::unique_ptr<ByteCapacity::Share> share_;  // null: it counts nowhere
  char* data_ = nullptr;
  size_t size_ = 0;
  size_t held_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_BODY_BYTES_H_
