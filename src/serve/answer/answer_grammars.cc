#include "serve/answer/answer_grammars.h"

#include "text/grammar/held_schema.h"
#include "text/tools/tool_call_grammar.h"

namespace winnow {
namespace {

// Of memory it is nobody's field.
Error RefusedGrammar(const AskedGrammar& asked, const Error& error) {
  if (error.code == ErrorCode::kIo) return error;
  const bool of_space =
      !asked.white_space_field.empty() &&
      error.message.find(kWhiteSpaceComplaint) != std::string::npos;
  return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                   of_space ? asked.white_space_field : asked.field,
                   error.message);
}

}  // namespace

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

Result<AskedGrammar> AnswerGrammars::CallsOf(
    const CompletionRequest& request, const AskedGrammar* otherwise,
    std::vector<std::string>& unheld) const {
  constexpr const char* kField = "tools";
  const bool forced = !request.forced_tools.empty();
  Result<HeldCalls> calls = ToolCallGrammar(
      *call_format_, forced ? request.forced_tools : request.tools,
      request.one_call, tokenizer_, limits_.max_bytes,
      otherwise == nullptr ? nullptr : &otherwise->grammar);
  if (!calls.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "request: field {}: {}",
                     kField, calls.error().message);
  }
  for (const std::string& place : calls->unheld) {
    unheld.push_back(fmt::format("{}.{}", kField, place));
  }
  AskedGrammar asked = {.grammar = std::move(calls->grammar), .field = kField};
  if (otherwise == nullptr) return asked;
  asked.field = otherwise->field;
  asked.white_space_field = otherwise->white_space_field;
  return asked;
}

Result<std::optional<AskedGrammar>> AnswerGrammars::GrammarOf(
    const CompletionRequest& request, std::vector<std::string>& unheld) const {
  std::optional<AskedGrammar> asked = request.grammar;
  // One that is too large is refused where it would be compiled.
  if (asked && asked->grammar.source.size() > limits_.max_bytes) return asked;
  if (asked && asked->grammar.kind == GrammarKind::kJsonSchema) {
    Result<HeldSchema> schema =
        HoldSchema(asked->grammar.source, UnheldKeywords::kRefused);
    if (!schema.ok()) return RefusedGrammar(*asked, schema.error());
    asked->grammar.source = std::move(schema->json);
    for (const std::string& place : schema->unheld) {
      unheld.push_back(asked->field + "." + place);
    }
  }
  if (asked && request.tools.empty()) return asked;
  if (!asked && request.forced_tools.empty()) return asked;
  ASSIGN_OR_RETURN(AskedGrammar calls,
                   CallsOf(request, asked ? &*asked : nullptr, unheld));
  return std::optional(std::move(calls));
}

Result<HeldAnswer> AnswerGrammars::Compile(const CompletionRequest& request,
                                           AnswerPlace place) {
  HeldAnswer held;
  ASSIGN_OR_RETURN(const std::optional<AskedGrammar> asked,
                   GrammarOf(request, held.unheld));
  if (!asked) return held;
  const std::scoped_lock lock(mutex_);
  ASSIGN_OR_RETURN(const GrammarVocabulary* vocabulary, Vocabulary());
  Result<GrammarMatcher> matcher = vocabulary->Compile(asked->grammar, place);
  if (!matcher.ok()) return RefusedGrammar(*asked, matcher.error());
  held.matcher = *std::move(matcher);
  return held;
}

}  // namespace winnow
