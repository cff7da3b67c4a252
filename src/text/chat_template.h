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
  // Whether it ends where the last message's text does, which goes on: without
  // blanks there where the template trims them.
  bool continue_last = false;
};

// The files of a checkpoint that a chat's text depends on.
struct ChatTemplateFiles {
  std::optional<std::string> chat_template_jinja = {};
  std::optional<std::string> tokenizer_config_json = {};
  std::optional<std::string> special_tokens_map_json = {};
  // additional_chat_templates/NAME.jinja: each name and text.
  std::vector<std::pair<std::string, std::string>> additional = {};
};

// A checkpoint's chat template, rendered as Hugging Face transformers does:
// Python's Jinja (rust/src/jinja) with tojson as json.dumps, raise_exception,
// strftime_now, break, continue.
//
// Owns the compiled template; moved, never copied. Render may be called from
// several threads at once. A rendering's steps, depth and output are bounded.
// The text holds the special tokens: encode it without adding any.
class ChatTemplate {
 public:
  // Takes `folder`/chat_template.jinja and additional_chat_templates/, else
  // "chat_template" of tokenizer_config.json: a string, a list of {"name",
  // "template"}, or an object of templates by name. One named "tool_use"
  // renders what has tools, and one that "chat_template" among the variables
  // names what asks for it. Fails with kNotFound where there is none, with the
  // line where the syntax of the one named "default" is wrong.
  static Result<ChatTemplate> Load(const std::filesystem::path& folder);

  // The same from the files' contents. `folder` is only named in messages.
  static Result<ChatTemplate> FromText(const std::filesystem::path& folder,
                                       const ChatTemplateFiles& files);

  // Contents are a string or a list of parts {"type": "text", "text"}; the
  // template gets what it reads of both. Fails with the template's line where
  // it raises or misuses a value, where it takes too many steps or writes too
  // much, and where it writes the same whatever the messages say; with
  // kNotFound where the text of `continue_last` is not there.
  Result<std::string> Render(const ChatInput& input) const;

  // The source of the template that renders chats with tools.
  std::string ToolSource() const;

  // Why templates cannot be used, a line each, and that none is the default.
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
