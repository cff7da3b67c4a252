// BodyBytes: a request's body while it arrives, in counted memory.
#ifndef WINNOW_SERVE_HTTP_BODY_BYTES_H_
#define WINNOW_SERVE_HTTP_BODY_BYTES_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <system_error>

#include "serve/http/byte_capacity.h"

namespace winnow {

// A body up to this size is parsed and encoded within tens of milliseconds. A
// larger body is long.
inline constexpr size_t kLongBodyBytes = size_t{64} << 10;

// Owns pages of memory that grow in place or move without a copy, and go back
// to the system with it. So it holds no more than its bytes and the rest of
// their last page. (A growing string has up to twice its bytes, and three times
// during a copy. A string of the announced size holds memory for bytes that may
// never come.) Long bodies are counted in the shared capacity.
class BodyBytes {
 public:
  // Null: not counted.
  explicit BodyBytes(std::shared_ptr<ByteCapacity> room = nullptr);
  ~BodyBytes();
  BodyBytes(BodyBytes&& other) noexcept;
  BodyBytes& operator=(BodyBytes&& other) noexcept;

  // The memory of whole pages for `num_bytes`.
  static size_t HeldBytesOf(size_t num_bytes);

  // Appends bytes. On an error nothing changes: no_buffer_space if the capacity
  // is full, not_enough_memory if the system has none.
  std::errc Append(std::string_view bytes);
  // Valid until the body grows or ends.
  std::string_view view() const { return {data_, size_}; }
  size_t held_bytes() const { return held_bytes_; }

 private:
  std::unique_ptr<ByteCapacity::Share> share_;  // null: not counted
  char* data_ = nullptr;
  size_t size_ = 0;
  size_t held_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_BODY_BYTES_H_
