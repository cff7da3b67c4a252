// A conversation to the text that a model was trained to continue.
#ifndef WINNOW_TEXT_CHAT_TEMPLATE_H_
#define WINNOW_TEXT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

// The Rust library's object (rust/winnow_text.h).
struct WinnowChatTemplate;

namespace winnow {

// A message of plain text.
struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// The messages as ChatInput::messages_json. Fails where one is not UTF-8.
Result<std::string> MessagesJson(std::span<const ChatMessage> messages);

// What one rendering is about.
struct ChatInput {
  // A JSON array of objects with "role", "content" and whatever else the
  // template reads.
  std::string_view messages_json;
  // A JSON object: more variables for the template ("tools",
  // "enable_thinking"). They go before special tokens and defaults.
  std::string_view extra_json = "{}";
  // What the template's clock shows.
  int64_t now_unix_s = 0;
  // Whether the text ends where the assistant's answer begins.
  bool add_generation_prompt = true;
};

// A checkpoint's chat template, rendered as Hugging Face transformers does:
// Jinja with Python's str and dict methods, tojson as json.dumps, and
// raise_exception, strftime_now, break, continue.
//
// Owns the compiled template; moved, never copied. Render may be called from
// several threads at once. A rendering's steps, depth and output are bounded.
// The text holds the special tokens: encode it without adding any.
class ChatTemplate {
 public:
  // Takes `folder`/chat_template.jinja, else "chat_template" of
  // tokenizer_config.json: a string, or a list of {"name", "template"} with
  // one named "default" and perhaps one named "tool_use", which then renders
  // what has tools. Fails with kNotFound where there is none, with the line
  // where its syntax is wrong.
  static Result<ChatTemplate> Load(const std::filesystem::path& folder);

  // The same from the files' contents. `folder` is only named in messages.
  static Result<ChatTemplate> FromText(
      const std::filesystem::path& folder,
      const std::optional<std::string>& chat_template_jinja,
      const std::optional<std::string>& tokenizer_config_json);

  // Fails with the template's line where it raises or misuses a value, and
  // where it takes too many steps or writes too much.
  Result<std::string> Render(const ChatInput& input) const;

  // The source of the template that renders chats with tools.
  std::string ToolSource() const;

 private:
  struct Free {
    void operator()(WinnowChatTemplate* chat_template) const;
  };
  using Handle = std::unique_ptr<WinnowChatTemplate, Free>;

  explicit ChatTemplate(Handle handle) : handle_(std::move(handle)) {}

  Handle handle_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_CHAT_TEMPLATE_H_
