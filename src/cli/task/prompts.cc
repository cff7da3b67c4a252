#include "cli/task/prompts.h"

#include <ctime>
#include <utility>

#include "base/file.h"
#include "cli/command/file_fault.h"

namespace winnow {
namespace {

// Far above any context: 128K tokens are about half a MiB of text.
constexpr size_t kMaxPromptBytes = size_t{1} << 30;

Result<PromptText> Checked(PromptText prompt, std::string_view what) {
  const Status is_text = Tokenizer::CheckText(prompt.text);
  if (!is_text.ok()) {
    return MakeError(is_text.error().code, "{}: {}", prompt.origin,
                     is_text.error().message);
  }
  if (prompt.text.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: {} must have at least 1 character, is empty",
                     prompt.origin, what);
  }
  return prompt;
}

Result<std::vector<int32_t>> EncodeChat(const std::string& message,
                                        const std::string& model_folder,
                                        const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const ChatTemplate chat,
                   FromFiles(ChatTemplate::Load(model_folder)));
  const ChatMessage user = {.role = "user", .content = message};
  ASSIGN_OR_RETURN(const std::string messages, MessagesJson({&user, 1}));
  ChatInput input;
  input.messages_json = messages;
  input.now_unix_s = std::time(nullptr);
  ASSIGN_OR_RETURN(const std::string text, FromFiles(chat.Render(input)));
  return FromFiles(tokenizer.Encode(text, /*add_special_tokens=*/false));
}

}  // namespace

Result<PromptText> ReadPrompt(const Prompt& prompt) {
  switch (prompt.kind) {
    case Prompt::Kind::kText:
      return Checked({prompt.kind, "--prompt", prompt.value}, "prompt");
    case Prompt::Kind::kFile: {
      ASSIGN_OR_RETURN(std::string text,
                       ReadFile(prompt.value, kMaxPromptBytes));
      return FromFiles(
          Checked({prompt.kind, prompt.value, std::move(text)}, "prompt"));
    }
    case Prompt::Kind::kChat:
      return Checked({prompt.kind, "--chat", prompt.value}, "message");
  }
  CHECK(false, "kind={}", static_cast<int>(prompt.kind));
}

Result<std::vector<int32_t>> EncodePrompt(const PromptText& prompt,
                                          const std::string& model_folder,
                                          const Tokenizer& tokenizer) {
  if (prompt.kind == Prompt::Kind::kChat) {
    ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                     EncodeChat(prompt.text, model_folder, tokenizer));
    if (!ids.empty()) return ids;
    return MakeError(ErrorCode::kCorrupt,
                     "{}: chat template must render at least 1 token, renders "
                     "0",
                     model_folder);
  }
  Result<std::vector<int32_t>> ids =
      FromFiles(tokenizer.Encode(prompt.text, /*add_special_tokens=*/true));
  if (!ids.ok()) {
    return MakeError(ids.error().code, "{}: {}", prompt.origin,
                     ids.error().message);
  }
  if (ids->empty()) {
    return MakeError(
        prompt.kind == Prompt::Kind::kFile ? ErrorCode::kCorrupt
                                           : ErrorCode::kInvalidArgument,
        "{}: prompt must have at least 1 token, has 0", prompt.origin);
  }
  return ids;
}

}  // namespace winnow
