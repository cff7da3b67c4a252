#include "serve/answer/answer_constraint.h"

#include <algorithm>

namespace winnow {

Status AnswerConstraint::Mask(std::span<uint32_t> words) {
  if (!failure_) {
    const Status asked = matcher_.Mask(words);
    if (asked.ok()) return Ok{};
    failure_ = asked.error();
  }
  std::ranges::fill(words, 0u);
  // Whatever it is, another grammar would not have it; but for memory.
  return MakeError(
      failure_->code == ErrorCode::kIo ? ErrorCode::kIo
                                       : ErrorCode::kInvalidArgument,
      "the answer cannot go on within its grammar: {}", failure_->message);
}

void AnswerConstraint::Accept(int32_t token_id) {
  const Status accepted = matcher_.Accept(token_id);
  if (!accepted.ok()) failure_ = accepted.error();
}

}  // namespace winnow
