#include "cli/generate/generation.h"

namespace winnow {

Generation::Generation(AnswerText answer, ShowText show_text,
                       BatchProgress& batch, size_t prompt)
    : answer_(std::move(answer)),
      show_text_(std::move(show_text)),
      batch_(batch),
      prompt_(prompt) {}

void Generation::OnPrefill(int done, int) { batch_.OnRead(prompt_, done); }

bool Generation::Show(const Result<std::string>& certain) {
  if (!certain.ok()) {
    error_ = certain.error();
    return false;
  }
  if (!certain->empty()) {
    text_ += *certain;
    show_text_(*certain);
  }
  return !answer_.stopped();
}

bool Generation::OnToken(const GeneratedToken& token) {
  tokens_.push_back(token);
  batch_.OnToken(prompt_);
  return Show(answer_.Push(token.token_id));
}

void Generation::OnFinish(const Completion& completion) {
  completion_ = completion;
  finished_ = true;
  if (!error_ && !answer_.stopped()) Show(answer_.Finish());
  if (error_) {
    completion_.reason = FinishReason::kError;
    completion_.error = error_;
  }
}

}  // namespace winnow
