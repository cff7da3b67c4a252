// AnswerGrammars: the grammars of answers, compiled for the model's vocabulary.
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
  // None: the answer is unconstrained.
  std::optional<GrammarMatcher> matcher = {};
  // Schema fields that the matcher does not enforce:
  // "response_format.json_schema.schema.properties.NAME.format",
  // "tools.TOOL.properties.NAME.not".
  std::vector<std::string> unheld = {};
};

// Builds the grammars' vocabulary for the first grammar. Any thread; a grammar
// is compiled on the calling thread, one at a time.
class AnswerGrammars {
 public:
  // `call_format`: the model's form of tool calls, if it has one. REQUIRES: the
  // tokenizer outlives this.
  AnswerGrammars(const Tokenizer& tokenizer,
                 std::optional<ToolCallFormat> call_format, int vocab_size,
                 std::vector<int32_t> eos_token_ids, GrammarLimits limits)
      : tokenizer_(tokenizer),
        call_format_(call_format),
        vocab_size_(vocab_size),
        eos_token_ids_(std::move(eos_token_ids)),
        limits_(limits) {}

  // The matcher for an answer at its `place`: a grammar, forced tool calls, or
  // either if both are allowed. Fails if the grammar is invalid, or if the
  // model's vocabulary supports none. REQUIRES: a request has tools only if the
  // model writes calls (PromptEncoder::Texts refuses it otherwise).
  Result<HeldAnswer> Compile(const CompletionRequest& request,
                             AnswerPlace place);

 private:
  Result<const GrammarVocabulary*> Vocabulary();  // REQUIRES: the mutex is held
  // Adds fields of the tools' schemas that the grammar does not enforce to
  // `unheld`.
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
  std::mutex mutex_;  // guards compiling and the members below
  std::optional<Result<GrammarVocabulary>> vocabulary_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_ANSWER_GRAMMARS_H_
