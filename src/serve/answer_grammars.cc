#include "serve/answer_grammars.h"

#include "text/tool_call_grammar.h"

namespace winnow {

Result<const GrammarVocabulary*> AnswerGrammars::Vocabulary() {
  // Where it failed for want of memory alone, it is tried again.
  const bool may_be_there_now = vocabulary_ && !vocabulary_->ok() &&
                                vocabulary_->error().code == ErrorCode::kIo;
  if (!vocabulary_ || may_be_there_now) {
    vocabulary_ = GrammarVocabulary::Create(tokenizer_, vocab_size_,
                                            eos_token_ids_, limits_);
  }
  if (!vocabulary_->ok()) return vocabulary_->error();
  return &**vocabulary_;
}

Result<std::optional<AskedGrammar>> AnswerGrammars::GrammarOf(
    const CompletionRequest& request) const {
  if (request.forced_tools.empty()) return request.grammar;
  constexpr const char* kField = "tools";
  Result<Grammar> grammar =
      ToolCallGrammar(*call_format_, request.forced_tools, request.one_call,
                      tokenizer_, limits_.max_bytes);
  if (!grammar.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                     kField, grammar.error().message);
  }
  return std::optional(
      AskedGrammar{.grammar = *std::move(grammar), .field = kField});
}

Result<std::optional<GrammarMatcher>> AnswerGrammars::Compile(
    const CompletionRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<AskedGrammar> asked, GrammarOf(request));
  if (!asked) return std::optional<GrammarMatcher>();
  const std::scoped_lock lock(mutex_);
  ASSIGN_OR_RETURN(const GrammarVocabulary* vocabulary, Vocabulary());
  Result<GrammarMatcher> matcher = vocabulary->Compile(asked->grammar);
  if (matcher.ok()) return std::optional(*std::move(matcher));
  if (matcher.error().code == ErrorCode::kIo) return matcher.error();
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                   asked->field, matcher.error().message);
}

}  // namespace winnow
