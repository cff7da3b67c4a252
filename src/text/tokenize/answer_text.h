// AnswerText: a generated answer's tokens to the text that may be shown.
#ifndef WINNOW_TEXT_TOKENIZE_ANSWER_TEXT_H_
#define WINNOW_TEXT_TOKENIZE_ANSWER_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/tokenize/detokenizer.h"
#include "text/tokenize/stop_matcher.h"

namespace winnow {

// Not bytes. REQUIRES: UTF-8.
int64_t NumCharacters(std::string_view text);

// A detokenizer and a stop matcher in a row: text is passed on as soon as it is
// certain, no half characters, nothing that may begin a stop string, and ends
// before the first stop string. Owns both; one thread at a time. An answer that
// goes on behind a text has a detokenizer that follows it.
class AnswerText {
 public:
  AnswerText(Detokenizer detokenizer, StopMatcher stop_matcher)
      : detokenizer_(std::move(detokenizer)),
        stop_matcher_(std::move(stop_matcher)) {}

  // Takes the next id; returns what is now certain, often "". Fails as
  // Detokenizer::Push does. REQUIRES: !stopped(), and Finish was not called.
  Result<std::string> Push(int32_t id);
  // What the token would add, stop strings aside. Fails as Push.
  Result<TokenAddition> Peek(int32_t id) const { return detokenizer_.Peek(id); }
  // No token will come: returns the rest, which too may hold a stop string.
  // REQUIRES: as Push.
  Result<std::string> Finish();

  // A stop string has ended the text.
  bool stopped() const { return matched_stop().has_value(); }
  // Which one.
  std::optional<size_t> matched_stop() const { return stop_matcher_.matched(); }

 private:
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOKENIZE_ANSWER_TEXT_H_
