#include "text/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
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

constexpr const char* kAdditional = "additional_chat_templates";

using NamedTemplates = std::vector<std::pair<std::string, std::string>>;

// Each *.jinja of the folder, which need not exist, by its name.
Result<NamedTemplates> ReadAdditional(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const bool is_file = entry.is_regular_file(error);
    if (is_file && entry.path().extension() == ".jinja") {
      paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  NamedTemplates templates;
  for (const std::filesystem::path& path : paths) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxTemplateBytes));
    templates.emplace_back(path.stem().string(), std::move(text));
  }
  return templates;
}

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
  ChatTemplateFiles files;
  ASSIGN_OR_RETURN(
      files.chat_template_jinja,
      ReadIfThere(folder / "chat_template.jinja", kMaxTemplateBytes));
  ASSIGN_OR_RETURN(
      files.tokenizer_config_json,
      ReadIfThere(folder / "tokenizer_config.json", kMaxTokenizerConfigBytes));
  ASSIGN_OR_RETURN(files.special_tokens_map_json,
                   ReadIfThere(folder / "special_tokens_map.json",
                               kMaxTokenizerConfigBytes));
  ASSIGN_OR_RETURN(files.additional, ReadAdditional(folder / kAdditional));
  return FromText(folder, files);
}

Result<ChatTemplate> ChatTemplate::FromText(const std::filesystem::path& folder,
                                            const ChatTemplateFiles& files) {
  const auto path = [&](const std::string& name) {
    return (folder / name).string();
  };
  const std::string jinja = path("chat_template.jinja");
  const std::string config = path("tokenizer_config.json");
  const std::string special_map = path("special_tokens_map.json");
  std::vector<std::string> paths;
  paths.reserve(files.additional.size());  // Slices of them are kept.
  std::vector<WinnowNamedTemplate> additional;
  for (const auto& [name, text] : files.additional) {
    paths.push_back((folder / kAdditional / (name + ".jinja")).string());
    additional.push_back(
        {SliceOf(name), {SliceOf(paths.back()), SliceOf(text)}});
  }
  WinnowChatTemplate* chat_template = nullptr;
  WinnowOwnedText message{};
  const int32_t code = winnow_chat_template_load(
      {.jinja = NamedTextOf(jinja, files.chat_template_jinja),
       .config = NamedTextOf(config, files.tokenizer_config_json),
       .special_map = NamedTextOf(special_map, files.special_tokens_map_json),
       .additional = additional.data(),
       .num_additional = additional.size()},
      &chat_template, &message);
  if (code == kWinnowTextOk) return ChatTemplate(Handle(chat_template));
  const Error error = internal::TakeError(code, message);
  if (error.code != ErrorCode::kNotFound) return error;
  return MakeError(ErrorCode::kNotFound,
                   "{}: no chat template (looked for chat_template.jinja, "
                   "additional_chat_templates/ and \"chat_template\" in "
                   "tokenizer_config.json)",
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
  const WinnowChatInput given = {
      SliceOf(input.messages_json), SliceOf(input.extra_json), input.now_unix_s,
      input.add_generation_prompt, input.continue_last};
  const int32_t code =
      winnow_chat_template_render(handle_.get(), given, &text, &message);
  if (code != kWinnowTextOk) return internal::TakeError(code, message);
  return internal::TakeText(text);
}

std::string ChatTemplate::ToolSource() const {
  return internal::TakeText(winnow_chat_template_tool_source(handle_.get()));
}

std::string ChatTemplate::Complaints() const {
  return internal::TakeText(winnow_chat_template_complaints(handle_.get()));
}

}  // namespace winnow
