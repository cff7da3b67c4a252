// AnswerText: a generated answer's tokens to the text that may be shown.
#ifndef WINNOW_TEXT_ANSWER_TEXT_H_
#define WINNOW_TEXT_ANSWER_TEXT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace winnow {

// Not bytes. REQUIRES: UTF-8.
int64_t NumCharacters(std::string_view text);

// A detokenizer and a stop matcher in a row: text is passed on as soon as it is
// certain, no half characters, nothing that may begin a stop string, and ends
// before the first stop string. Owns both; one thread at a time.
class AnswerText {
 public:
  AnswerText(Detokenizer detokenizer, StopMatcher stop_matcher)
      : detokenizer_(std::move(detokenizer)),
        stop_matcher_(std::move(stop_matcher)) {}

  // Takes the next id; returns what is now certain, often "". Fails as
  // Detokenizer::Push does. REQUIRES: !stopped(), and Finish was not called.
  Result<std::string> Push(int32_t id);
  // The answer goes on behind these ids, whose text is not passed on: where a
  // tokenizer puts a space between, or they leave a character unfinished, it is
  // the answer's. Returns how many characters each has made certain. Fails as
  // Push. REQUIRES: nothing was pushed.
  Result<std::vector<int64_t>> Follow(std::span<const int32_t> ids);
  // No token will come: returns the rest, which too may hold a stop string.
  // REQUIRES: as Push.
  Result<std::string> Finish();

  // A stop string has ended the text.
  bool stopped() const { return matched_stop().has_value(); }
  // Which one.
  std::optional<size_t> matched_stop() const { return stop_matcher_.matched(); }
  // Characters that pushed tokens have made certain, passed on or not.
  int64_t num_characters() const { return num_characters_; }

 private:
  Detokenizer detokenizer_;
  StopMatcher stop_matcher_;
  int64_t num_characters_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_ANSWER_TEXT_H_
