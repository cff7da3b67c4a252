// Prompts of a command line, in the order of the command line.
#ifndef WINNOW_CLI_TASK_PROMPTS_H_
#define WINNOW_CLI_TASK_PROMPTS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

struct Prompt {
  enum class Kind { kText, kFile, kChat };
  Kind kind = Kind::kText;
  std::string value;  // the text, or the file's path
};

// A prompt's text, which is UTF-8 and not empty. Messages name it `origin`:
// its flag or file.
struct PromptText {
  Prompt::Kind kind = Prompt::Kind::kText;
  std::string origin;
  std::string text;
};

// Reads everything that needs no checkpoint, and so runs before it is loaded.
// Errors in a file are not usage errors.
Result<PromptText> ReadPrompt(const Prompt& prompt);

// Token ids of a prompt. Plain text gets the tokenizer's special tokens. A chat
// message goes through the checkpoint's template, which writes its own. Errors
// of the template are not usage errors.
Result<std::vector<int32_t>> EncodePrompt(const PromptText& prompt,
                                          const std::string& model_folder,
                                          const Tokenizer& tokenizer);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_PROMPTS_H_
