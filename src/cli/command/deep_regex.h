// DeepRegex: std::regex for patterns and texts that are not our own.
#ifndef WINNOW_CLI_COMMAND_DEEP_REGEX_H_
#define WINNOW_CLI_COMMAND_DEEP_REGEX_H_

#include <cstdint>
#include <optional>
#include <regex>
#include <string>

#include "base/result.h"

namespace winnow {

// A regular expression (ECMAScript). The library recurses with the pattern and
// with each character of the text, and would end the process where the stack
// does: this runs it on a large stack of its own, and refuses what that may not
// bear. Plain data once made; const methods may run on several threads.
class DeepRegex {
 public:
  static constexpr size_t kMaxPatternChars = 4096;

  // Fails where the pattern is none, or is too long.
  static Result<DeepRegex> Compile(const std::string& pattern);

  // Where the first match at or behind `from` ends; none: nothing is found. A
  // beginning (^) is the text's. Fails where the text is longer than
  // max_text_chars().
  // REQUIRES: from <= text.size().
  Result<std::optional<size_t>> FindEnd(const std::string& text,
                                        size_t from) const;

  // Bytes of a text that can be searched.
  int64_t max_text_chars() const;

 private:
  DeepRegex(std::regex regex, int64_t num_states)
      : regex_(std::move(regex)), num_states_(num_states) {}

  std::regex regex_;
  int64_t num_states_;  // at least as many as the library steps through
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_DEEP_REGEX_H_
