// ChatTemplate: turns a conversation into the text that a model continues.
#ifndef WINNOW_TEXT_CHAT_TEMPLATE_H_
#define WINNOW_TEXT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

// The Rust library's object (rust/winnow_text.h).
struct WinnowChatTemplate;

namespace winnow {

// A message of plain text.
struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// The messages in the form of ChatInput::messages_json. Fails if a text is not
// UTF-8.
Result<std::string> MessagesJson(std::span<const ChatMessage> messages);

// The arguments of one rendering.
struct ChatInput {
  // A JSON array of objects with "role", "content" and any other field that the
  // template reads.
  std::string_view messages_json;
  // A JSON object with more variables for the template ("tools",
  // "enable_thinking"). They override special tokens and defaults.
  std::string_view extra_json = "{}";
  // The time that the template's clock shows.
  int64_t now_unix_s = 0;
  // True: the text ends where the assistant's answer begins.
  bool add_generation_prompt = true;
  // True: the text ends inside the last message, which the model continues.
  // Blanks at that end are dropped if the template trims them.
  bool continue_last = false;
};

// The files of a checkpoint on which a chat's text depends.
struct ChatTemplateFiles {
  std::optional<std::string> chat_template_jinja = {};
  std::optional<std::string> tokenizer_config_json = {};
  std::optional<std::string> special_tokens_map_json = {};
  // The name and text of each additional_chat_templates/NAME.jinja.
  std::vector<std::pair<std::string, std::string>> additional = {};
};

// A checkpoint's chat template, rendered as by Hugging Face transformers:
// Python's Jinja (rust/src/jinja) with tojson as json.dumps, raise_exception,
// strftime_now, break and continue.
//
// Owns the compiled template; moved, never copied. Several threads may call
// Render at once. A rendering's steps, depth and output are bounded. The text
// contains the special tokens, so encode it without adding any.
class ChatTemplate {
 public:
  // Reads `folder`/chat_template.jinja and additional_chat_templates/. Without
  // them reads "chat_template" of tokenizer_config.json: a string, a list of
  // {"name", "template"}, or an object of templates by name. The template
  // "tool_use" renders requests with tools. The variable "chat_template" may
  // name another template. Fails with kNotFound if there is no template. Fails,
  // with the line, if the syntax of "default" is wrong.
  static Result<ChatTemplate> Load(const std::filesystem::path& folder);

  // As Load, from the files' contents. `folder` appears in messages alone.
  static Result<ChatTemplate> FromText(const std::filesystem::path& folder,
                                       const ChatTemplateFiles& files);

  // Content is a string or a list of parts {"type": "text", "text"}; the
  // template gets the form that it reads. Fails, with the template's line, if
  // the template raises or misuses a value. Fails if it takes too many steps or
  // writes too much, and if its output does not depend on the messages. Fails
  // with kNotFound if the output lacks the text of `continue_last`.
  Result<std::string> Render(const ChatInput& input) const;

  // The source of the template that renders chats with tools.
  std::string ToolSource() const;

  // One line for each template that cannot be used, and one if there is no
  // default.
  std::string Complaints() const;

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
