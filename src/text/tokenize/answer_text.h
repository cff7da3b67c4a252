// AnswerText: turns a generated answer's tokens into the text that may be
// shown.
#ifndef WINNOW_TEXT_TOKENIZE_ANSWER_TEXT_H_
#define WINNOW_TEXT_TOKENIZE_ANSWER_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/tokenize/detokenizer.h"
#include "text/tokenize/stop_matcher.h"

namespace winnow {

// Counts characters, not bytes. REQUIRES: `text` is UTF-8.
int64_t NumCharacters(std::string_view text);

// A detokenizer followed by a stop matcher. Text is passed on as soon as it is
// certain: no half characters, and nothing that may begin a stop string. The
// text ends before the first stop string. An answer that continues a text has a
// detokenizer that follows it. Owns both; one thread at a time.
class AnswerText {
 public:
  AnswerText(Detokenizer detokenizer, StopMatcher stop_matcher)
      : detokenizer_(std::move(detokenizer)),
        stop_matcher_(std::move(stop_matcher)) {}

  // Takes the next id and returns the newly certain text, often "". Fails as
  // Detokenizer::Push does. REQUIRES: !stopped(), and Finish was not called.
  Result<std::string> Push(int32_t id);
  // The text that the token would add, without regard to stop strings. Fails as
  // Push.
  Result<TokenAddition> Peek(int32_t id) const { return detokenizer_.Peek(id); }
  // Ends the text and returns the rest, which may contain a stop string too.
  // REQUIRES: as Push.
  Result<std::string> Finish();

  // True if a stop string has ended the text.
  bool stopped() const { return matched_stop().has_value(); }
  // The index of that stop string.
  std::optional<size_t> matched_stop() const { return stop_matcher_.matched(); }

 private:
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_TOKENIZE_ANSWER_TEXT_H_
