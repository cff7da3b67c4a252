// Short numbers that tell one file, or one checkpoint, from another.
#ifndef WINNOW_CLI_FINGERPRINT_H_
#define WINNOW_CLI_FINGERPRINT_H_

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace winnow {

// FNV-1a, 64 bits (Fowler, Noll, Vo), over pieces of text and their lengths.
// Tells accidents apart, not forgeries.
class Fingerprint {
 public:
  void Add(std::string_view piece);
  uint64_t value() const { return state_; }

 private:
  void AddBytes(std::string_view bytes);

  uint64_t state_ = 0xCBF29CE484222325;
};

// Of a checkpoint's configuration, tokenizer and weights; of the weights,
// samples from all over each file, so that 100 GB take no time.
Result<uint64_t> FingerprintOfCheckpoint(const std::filesystem::path& folder);

}  // namespace winnow

#endif  // WINNOW_CLI_FINGERPRINT_H_
