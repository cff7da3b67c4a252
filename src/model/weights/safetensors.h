// The safetensors format: what a file says about its tensors, checked before
// a byte of them is read.
#ifndef WINNOW_MODEL_WEIGHTS_SAFETENSORS_H_
#define WINNOW_MODEL_WEIGHTS_SAFETENSORS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace winnow {

// One tensor of a file. `bytes` lies inside the span that was parsed and is
// exactly as long as shape and dtype ask for; it need not be aligned.
struct StoredTensor {
  std::string name;
  std::string dtype;  // as the format spells it: "BF16", "F32", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// Reads the header of a whole file: a length of 8 bytes, little-endian, that
// many bytes of JSON, then the tensors' bytes. As in the reference
// implementation, the tensors must cover those bytes exactly: none outside,
// none twice, none unused. `file` begins all messages. Returns the tensors in
// the order of their bytes.
Result<std::vector<StoredTensor>> ParseSafetensors(
    std::span<const std::byte> file_bytes, const std::string& file);

// What the header's __metadata__ says of `name`; empty where it says nothing.
// Fails where the header is none, or says it in anything but text.
Result<std::string> ReadSafetensorsMetadata(
    std::span<const std::byte> file_bytes, const std::string& file,
    const std::string& name);

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_SAFETENSORS_H_
