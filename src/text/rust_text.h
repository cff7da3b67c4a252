// How the module's classes call the Rust library: views in, owned text out,
// codes to errors. No other room includes this.
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

// A present slice, also of an empty text.
WinnowSlice SliceOf(std::string_view text);

// A text that may be absent, and the name that messages give it.
WinnowNamedText NamedTextOf(const std::string& name,
                            const std::optional<std::string>& text);

// What a call may take beside what grows with its text.
inline constexpr size_t kCallBytes = size_t{4} << 20;

// Sets aside what the library may take for a call, since it cannot be told that
// there is no memory: held while it is called. Fails with kIo, and names
// `what`, where the system has not that much.
Result<std::unique_ptr<MemoryReservation>> RoomForCall(std::string_view what,
                                                       size_t num_bytes);

// Copies what the library gave and gives it back.
std::string TakeText(WinnowOwnedText text);

// REQUIRES code != 0. Takes `message`.
Error TakeError(int32_t code, WinnowOwnedText message);

// Of tokenizer_config.json, which has the template, too.
inline constexpr size_t kMaxTokenizerConfigBytes = size_t{16} << 20;

// Reads a file that need not exist: no value where it does not.
Result<std::optional<std::string>> ReadIfThere(
    const std::filesystem::path& path, size_t max_bytes);

// Fails where `text` is not UTF-8, naming `what` and the byte's offset.
Status CheckUtf8(std::string_view what, std::string_view text);

}  // namespace winnow::internal

#endif  // WINNOW_TEXT_RUST_TEXT_H_
