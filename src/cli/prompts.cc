#include "cli/prompts.h"

#include <ctime>

#include "base/file.h"
#include "cli/file_fault.h"

namespace winnow {
namespace {

// Far above any context: 128K tokens are about half a MiB of text.
constexpr size_t kMaxPromptBytes = size_t{1} << 30;

Result<std::vector<int32_t>> EncodeText(std::string_view text,
                                        const Tokenizer& tokenizer,
                                        std::string_view origin) {
  Result<std::vector<int32_t>> ids =
      tokenizer.Encode(text, /*add_special_tokens=*/true);
  if (!ids.ok()) {
    return MakeError(ids.error().code, "{}: {}", origin, ids.error().message);
  }
  if (text.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: prompt must have at least 1 character, is empty",
                     origin);
  }
  return ids;
}

Result<std::vector<int32_t>> EncodeChat(const std::string& message,
                                        const std::string& model_folder,
                                        const Tokenizer& tokenizer) {
  if (message.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--chat: message must have at least 1 character, is "
                     "empty");
  }
  ASSIGN_OR_RETURN(const ChatTemplate chat,
                   FromFiles(ChatTemplate::Load(model_folder)));
  const ChatMessage user = {.role = "user", .content = message};
  Result<std::string> messages = MessagesJson({&user, 1});
  if (!messages.ok()) {
    return MakeError(messages.error().code, "--chat: {}",
                     messages.error().message);
  }
  ChatInput input;
  input.messages_json = *messages;
  input.now_unix_s = std::time(nullptr);
  ASSIGN_OR_RETURN(const std::string text, FromFiles(chat.Render(input)));
  return FromFiles(tokenizer.Encode(text, /*add_special_tokens=*/false));
}

}  // namespace

Result<std::vector<int32_t>> EncodePrompt(const Prompt& prompt,
                                          const std::string& model_folder,
                                          const Tokenizer& tokenizer) {
  switch (prompt.kind) {
    case Prompt::Kind::kText:
      return EncodeText(prompt.value, tokenizer, "--prompt");
    case Prompt::Kind::kFile: {
      ASSIGN_OR_RETURN(const std::string text,
                       ReadFile(prompt.value, kMaxPromptBytes));
      return FromFiles(EncodeText(text, tokenizer, prompt.value));
    }
    case Prompt::Kind::kChat:
      return EncodeChat(prompt.value, model_folder, tokenizer);
  }
  CHECK(false, "kind={}", static_cast<int>(prompt.kind));
}

}  // namespace winnow
