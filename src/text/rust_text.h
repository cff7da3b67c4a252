// Calls of the Rust library for this module's classes: views in, owned text
// out, codes to errors. No other module includes this.
#ifndef WINNOW_TEXT_RUST_TEXT_H_
#define WINNOW_TEXT_RUST_TEXT_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/memory_reserve.h"
#include "base/result.h"
#include "winnow_text.h"

namespace winnow::internal {

// A present slice, even if the text is empty.
WinnowSlice SliceOf(std::string_view text);

// A text that may be absent, and its name for messages.
WinnowNamedText NamedTextOf(const std::string& name,
                            const std::optional<std::string>& text);

// The fixed part of a call's memory, beside the part that grows with its text.
inline constexpr size_t kCallBytes = size_t{4} << 20;

// Reserves the memory that a call of the library may take, because the library
// cannot report a lack of memory. Hold the result during the call. Fails with
// kIo, naming `what`, if the system has too little.
Result<std::unique_ptr<MemoryReservation>> RoomForCall(std::string_view what,
                                                       size_t num_bytes);

// Copies a text of the library and releases it.
std::string TakeText(WinnowOwnedText text);

// Consumes `message`. REQUIRES: code != 0.
Error TakeError(int32_t code, WinnowOwnedText message);

// Limit of tokenizer_config.json, which may contain the template.
inline constexpr size_t kMaxTokenizerConfigBytes = size_t{16} << 20;

// Reads a file that need not exist; no value if it does not.
Result<std::optional<std::string>> ReadIfThere(
    const std::filesystem::path& path, size_t max_bytes);

// Fails, with `what` and the byte's offset, if `text` is not UTF-8.
Status CheckUtf8(std::string_view what, std::string_view text);

}  // namespace winnow::internal

#endif  // WINNOW_TEXT_RUST_TEXT_H_
