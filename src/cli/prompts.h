// The prompts of a command line, in the order in which they were given.
#ifndef WINNOW_CLI_PROMPTS_H_
#define WINNOW_CLI_PROMPTS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace winnow {

struct Prompt {
  enum class Kind { kText, kFile, kChat };
  Kind kind = Kind::kText;
  std::string value;  // the text, or the file's path
};

// Token ids of a prompt: the tokenizer's special tokens around plain text; a
// chat message through the checkpoint's template, which writes its own.
// Errors name the prompt by its flag or file; what is wrong with a file, or
// with the template's answer, is no usage error.
Result<std::vector<int32_t>> EncodePrompt(const Prompt& prompt,
                                          const std::string& model_folder,
                                          const Tokenizer& tokenizer);

}  // namespace winnow

#endif  // WINNOW_CLI_PROMPTS_H_
