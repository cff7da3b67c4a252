#include "cli/generation.h"

namespace winnow {

Generation::Generation(Detokenizer detokenizer, StopMatcher stop_matcher,
                       ShowText show_text, ShowPrefill show_prefill)
    : detokenizer_(std::move(detokenizer)),
      stop_matcher_(std::move(stop_matcher)),
      show_text_(std::move(show_text)),
      show_prefill_(std::move(show_prefill)) {}

void Generation::OnPrefill(int done, int total) { show_prefill_(done, total); }

void Generation::Show(std::string_view certain) {
  if (certain.empty()) return;
  text_ += certain;
  show_text_(certain);
}

bool Generation::OnToken(const GeneratedToken& token) {
  tokens_.push_back(token);
  const Result<std::string> piece = detokenizer_.Push(token.token_id);
  if (!piece.ok()) {
    error_ = piece.error();
    return false;
  }
  Show(stop_matcher_.Push(*piece));
  return !stop_matcher_.matched().has_value();
}

void Generation::OnFinish(const Completion& completion) {
  completion_ = completion;
  finished_ = true;
  if (!error_ && !stop_matcher_.matched()) {
    const Result<std::string> rest = detokenizer_.Finish();
    if (rest.ok()) {
      Show(stop_matcher_.Push(*rest));
      if (!stop_matcher_.matched()) Show(stop_matcher_.Finish());
    } else {
      error_ = rest.error();
    }
  }
  if (error_) {
    completion_.reason = FinishReason::kError;
    completion_.error = error_;
  }
}

}  // namespace winnow
