// Fingerprint: a short number that identifies a text.
#ifndef WINNOW_CLI_COMMAND_FINGERPRINT_H_
#define WINNOW_CLI_COMMAND_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

namespace winnow {

// FNV-1a, 64 bits (Fowler, Noll, Vo), over pieces of text and their lengths.
// Detects accidents, not forgeries.
class Fingerprint {
 public:
  void Add(std::string_view piece);
  uint64_t value() const { return state_; }

 private:
  void AddBytes(std::string_view bytes);

  uint64_t state_ = 0xCBF29CE484222325;
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_FINGERPRINT_H_
