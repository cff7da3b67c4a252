// DeepRegex: std::regex for foreign patterns and texts.
#ifndef WINNOW_CLI_COMMAND_DEEP_REGEX_H_
#define WINNOW_CLI_COMMAND_DEEP_REGEX_H_

#include <cstdint>
#include <optional>
#include <regex>
#include <string>

#include "base/result.h"

namespace winnow {

// A regular expression (ECMAScript). The library recurses with the pattern and
// with each character of the text, and a stack overflow would end the process.
// This class runs it on a large stack of its own, and refuses larger inputs.
// Plain data once made; const methods may run on several threads.
class DeepRegex {
 public:
  static constexpr size_t kMaxPatternChars = 4096;

  // Fails if the pattern is invalid or too long.
  static Result<DeepRegex> Compile(const std::string& pattern);

  // The end of the first match at or behind `from`; none without a match. `^`
  // matches the beginning of the text. Fails if the text is longer than
  // max_text_chars(). REQUIRES: from <= text.size().
  Result<std::optional<size_t>> FindEnd(const std::string& text,
                                        size_t from) const;

  // The greatest length of a text.
  int64_t max_text_chars() const;

 private:
  DeepRegex(std::regex regex, int64_t num_states)
      : regex_(std::move(regex)), num_states_(num_states) {}

  std::regex regex_;
  int64_t num_states_;  // an upper bound of the library's states
};

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_DEEP_REGEX_H_
