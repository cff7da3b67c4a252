#include "text/tokenize/answer_text.h"

#include <algorithm>

namespace winnow {

int64_t NumCharacters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
}

Result<std::string> AnswerText::Push(int32_t id) {
  ASSIGN_OR_RETURN(const std::string piece, detokenizer_.Push(id));
  return stop_matcher_.Push(piece);
}

Result<std::string> AnswerText::Finish() {
  ASSIGN_OR_RETURN(const std::string piece, detokenizer_.Finish());
  std::string rest = stop_matcher_.Push(piece);
  if (!stopped()) rest += stop_matcher_.Finish();
  return rest;
}

}  // namespace winnow
