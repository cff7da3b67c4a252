// AnswerGrammars: the grammars that hold answers, compiled for a vocabulary.
#ifndef WINNOW_SERVE_ANSWER_ANSWER_GRAMMARS_H_
#define WINNOW_SERVE_ANSWER_ANSWER_GRAMMARS_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/request/completion_request.h"
#include "text/grammar/grammar.h"
#include "text/tokenize/tokenizer.h"
#include "text/tools/tool_call_format.h"

namespace winnow {

struct HeldAnswer {
  std::optional<GrammarMatcher> matcher = {};  // none: it is held to nothing
  // Fields of schemas that it is not held to: "response_format.json_schema
  // .schema.properties.NAME.format", "tools.TOOL.properties.NAME.not".
  std::vector<std::string> unheld = {};
};

// The vocabulary as grammars read it is made for the first of them. Any thread;
// a grammar is compiled on the one that asks, one at a time.
class AnswerGrammars {
 public:
  // `call_format`: as the model writes calls of tools, where it does.
  // REQUIRES: the tokenizer outlives this.
  AnswerGrammars(const Tokenizer& tokenizer,
                 std::optional<ToolCallFormat> call_format, int vocab_size,
                 std::vector<int32_t> eos_token_ids, GrammarLimits limits)
      : tokenizer_(tokenizer),
        call_format_(call_format),
        vocab_size_(vocab_size),
        eos_token_ids_(std::move(eos_token_ids)),
        limits_(limits) {}

  // What holds an answer at its `place` to what was asked: a grammar, the tools
  // that must be called, or, where both may be, either. Fails where the grammar
  // is none, and where the model's vocabulary cannot be held to any.
  // REQUIRES: tools, only where the model writes calls (PromptEncoder::Texts
  // refuses them otherwise).
  Result<HeldAnswer> Compile(const CompletionRequest& request,
                             AnswerPlace place);

 private:
  Result<const GrammarVocabulary*> Vocabulary();  // REQUIRES: the mutex is held
  // What the tools' schemas ask in vain is added to `unheld`.
  Result<AskedGrammar> CallsOf(const CompletionRequest& request,
                               const AskedGrammar* otherwise,
                               std::vector<std::string>& unheld) const;
  Result<std::optional<AskedGrammar>> GrammarOf(
      const CompletionRequest& request, std::vector<std::string>& unheld) const;

  const Tokenizer& tokenizer_;
  const std::optional<ToolCallFormat> call_format_;
  const int vocab_size_;
  const std::vector<int32_t> eos_token_ids_;
  const GrammarLimits limits_;
  std::mutex mutex_;  // for what follows, and compiling
  std::optional<Result<GrammarVocabulary>> vocabulary_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_ANSWER_GRAMMARS_H_
