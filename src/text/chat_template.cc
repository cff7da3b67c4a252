#include "text/chat_template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "text/rust_text.h"

namespace winnow {
namespace {

using internal::kMaxTokenizerConfigBytes;
using internal::NamedTextOf;
using internal::ReadIfThere;
using internal::SliceOf;

constexpr size_t kMaxTemplateBytes = size_t{4} << 20;
// What rendering takes for a byte of a conversation as JSON, and what the
// longest text that it may make takes while it grows.
constexpr size_t kRenderingBytes = 64;
constexpr size_t kRenderedBytes = size_t{256} << 20;

}  // namespace

Result<std::string> MessagesJson(std::span<const ChatMessage> messages) {
  auto array = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    const std::string name = fmt::format("message {}", array.size());
    RETURN_IF_ERROR(internal::CheckUtf8(name + ": role", message.role));
    RETURN_IF_ERROR(internal::CheckUtf8(name + ": content", message.content));
    array.push_back({{"role", message.role}, {"content", message.content}});
  }
  return array.dump();
}

void ChatTemplate::Free::operator()(WinnowChatTemplate* chat_template) const {
  winnow_chat_template_free(chat_template);
}

Result<ChatTemplate> ChatTemplate::Load(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(const auto jinja, ReadIfThere(folder / "chat_template.jinja",
                                                 kMaxTemplateBytes));
  ASSIGN_OR_RETURN(
      const auto config,
      ReadIfThere(folder / "tokenizer_config.json", kMaxTokenizerConfigBytes));
  return FromText(folder, jinja, config);
}

Result<ChatTemplate> ChatTemplate::FromText(
    const std::filesystem::path& folder,
    const std::optional<std::string>& chat_template_jinja,
    const std::optional<std::string>& tokenizer_config_json) {
  const std::string jinja_name = (folder / "chat_template.jinja").string();
  const std::string config_name = (folder / "tokenizer_config.json").string();
  WinnowChatTemplate* chat_template = nullptr;
  WinnowOwnedText message{};
  const int32_t code =
      winnow_chat_template_load(NamedTextOf(jinja_name, chat_template_jinja),
                                NamedTextOf(config_name, tokenizer_config_json),
                                &chat_template, &message);
  if (code == kWinnowTextOk) return ChatTemplate(Handle(chat_template));
  const Error error = internal::TakeError(code, message);
  if (error.code != ErrorCode::kNotFound) return error;
  return MakeError(ErrorCode::kNotFound,
                   "{}: no chat template (looked for chat_template.jinja and "
                   "\"chat_template\" in tokenizer_config.json)",
                   folder.string());
}

Result<std::string> ChatTemplate::Render(const ChatInput& input) const {
  const size_t num_bytes = input.messages_json.size() + input.extra_json.size();
  ASSIGN_OR_RETURN(const auto room,
                   internal::RoomForCall(
                       fmt::format("a conversation of {} bytes", num_bytes),
                       kRenderedBytes + kRenderingBytes * num_bytes));
  WinnowOwnedText text{};
  WinnowOwnedText message{};
  const WinnowChatInput given = {SliceOf(input.messages_json),
                                 SliceOf(input.extra_json), input.now_unix_s,
                                 input.add_generation_prompt};
  const int32_t code =
      winnow_chat_template_render(handle_.get(), given, &text, &message);
  if (code != kWinnowTextOk) return internal::TakeError(code, message);
  return internal::TakeText(text);
}

std::string ChatTemplate::ToolSource() const {
  return internal::TakeText(winnow_chat_template_tool_source(handle_.get()));
}

}  // namespace winnow
