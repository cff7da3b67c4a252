// What a key is made of, as bytes one after another.
#ifndef WINNOW_ENGINE_REQUEST_KEY_BYTES_H_
#define WINNOW_ENGINE_REQUEST_KEY_BYTES_H_

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

namespace winnow {

// Bytes of scalars, without the padding that structs have. Two keys are equal
// where they were given equal scalars in one order.
class KeyBytes {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_scalar_v<T>, "structs have padding");
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  const std::string& text() const { return bytes_; }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(bytes_));
  }

 private:
  std::string bytes_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_KEY_BYTES_H_
