#include "text/rust_text.h"

#include "base/check.h"
#include "base/file.h"

namespace winnow::internal {
namespace {

ErrorCode CodeOf(int32_t code) {
  switch (code) {
    case kWinnowTextInvalidArgument:
      return ErrorCode::kInvalidArgument;
    case kWinnowTextNotFound:
      return ErrorCode::kNotFound;
    case kWinnowTextCorrupt:
      return ErrorCode::kCorrupt;
    case kWinnowTextResourceExhausted:
      return ErrorCode::kResourceExhausted;
    case kWinnowTextCancelled:
      return ErrorCode::kCancelled;
    case kWinnowTextIo:
      return ErrorCode::kIo;
  }
  CHECK(false, "code={}", code);
  return ErrorCode::kCorrupt;
}

}  // namespace

WinnowSlice SliceOf(std::string_view text) {
  return {text.data() == nullptr ? "" : text.data(), text.size()};
}

WinnowNamedText NamedTextOf(const std::string& name,
                            const std::optional<std::string>& text) {
  return {SliceOf(name), text ? SliceOf(*text) : WinnowSlice{nullptr, 0}};
}

Result<std::unique_ptr<MemoryReservation>> RoomForCall(std::string_view what,
                                                       size_t num_bytes) {
  std::unique_ptr<MemoryReservation> room = MemoryReservation::Take(num_bytes);
  if (room != nullptr) return room;
  return MakeError(ErrorCode::kIo,
                   "memory does not suffice for {}: it may take {} bytes", what,
                   num_bytes);
}

std::string TakeText(WinnowOwnedText text) {
  const struct Owner {
    ~Owner() { winnow_text_free(text); }
    const WinnowOwnedText text;
  } owner{text};
  return std::string(text.data, text.size);
}

Error TakeError(int32_t code, WinnowOwnedText message) {
  return {CodeOf(code), TakeText(message)};
}

Result<std::optional<std::string>> ReadIfThere(
    const std::filesystem::path& path, size_t max_bytes) {
  auto content = ReadFile(path, max_bytes);
  if (content.ok()) return std::optional(std::move(content).value());
  if (content.error().code == ErrorCode::kNotFound) {
    return std::optional<std::string>();
  }
  return content.error();
}

Status CheckUtf8(std::string_view what, std::string_view text) {
  WinnowOwnedText message{};
  const int32_t code = winnow_text_check_utf8(SliceOf(text), &message);
  if (code == kWinnowTextOk) return Ok{};
  const Error error = TakeError(code, message);
  return MakeError(error.code, "{}: {}", what, error.message);
}

}  // namespace winnow::internal
