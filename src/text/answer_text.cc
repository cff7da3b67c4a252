#include "text/answer_text.h"

namespace winnow {

Result<std::string> AnswerText::Push(int32_t id) {
  ASSIGN_OR_RETURN(const std::string piece, detokenizer_.Push(id));
  return stop_matcher_.Push(piece);
}

Status AnswerText::Follow(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    const Result<std::string> piece = detokenizer_.Push(id);
    if (!piece.ok()) return piece.error();
  }
  return Ok{};
}

Result<std::string> AnswerText::Finish() {
  ASSIGN_OR_RETURN(const std::string piece, detokenizer_.Finish());
  std::string rest = stop_matcher_.Push(piece);
  if (!stopped()) rest += stop_matcher_.Finish();
  return rest;
}

}  // namespace winnow
