#include "serve/answer_constraint.h"

#include <algorithm>

namespace winnow {

Status AnswerConstraint::Mask(std::span<uint32_t> words) {
  if (!failure_) return matcher_.Mask(words);
  std::ranges::fill(words, 0u);
  return *failure_;
}

void AnswerConstraint::Accept(int32_t token_id) {
  const Status accepted = matcher_.Accept(token_id);
  if (!accepted.ok()) failure_ = accepted.error();
}

}  // namespace winnow
