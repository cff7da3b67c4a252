// Whether a text answers a question: eval's --match.
#ifndef WINNOW_CLI_TASK_EVAL_MATCH_H_
#define WINNOW_CLI_TASK_EVAL_MATCH_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command/deep_regex.h"

namespace winnow {

enum class MatchRule {
  kContains,  // every answer occurs in the text
  kExact,     // the text is the answers, joined by spaces, and nothing else
  kRegex      // every answer, a regular expression (ECMAScript), is found
};

// "contains", "exact" or "regex".
Result<MatchRule> ParseMatchRule(std::string_view text);

// Every run of white space as one space, none at either end.
std::string CollapseWhiteSpace(std::string_view text);

// Knows the answers of one question. In order means that each answer is found
// behind the end of the one before; out of order each may be anywhere, and an
// exact text is any permutation. White space counts as CollapseWhiteSpace has
// it. Upper and lower case differ.
class AnswerMatcher {
 public:
  struct Wanted {
    MatchRule rule = MatchRule::kContains;
    std::vector<std::string> answers;  // at least one, not blank
    bool unordered = false;
  };
  // Fails where an answer is not a regular expression and should be one, or is
  // too long a one.
  static Result<AnswerMatcher> Create(const Wanted& wanted);

  // Fails only where a text is too long for a regular expression (DeepRegex).
  Result<bool> Matches(std::string_view text) const;
  // True where a text that matches still does whatever follows it.
  bool more_text_changes_nothing() const {
    return rule_ == MatchRule::kContains;
  }

 private:
  AnswerMatcher(MatchRule rule, bool unordered)
      : rule_(rule), unordered_(unordered) {}
  bool Contains(const std::string& text) const;
  Result<bool> Finds(const std::string& text) const;

  MatchRule rule_;
  bool unordered_;
  std::vector<std::string> answers_;  // collapsed; of kRegex none
  std::vector<DeepRegex> patterns_;   // of kRegex
};

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_EVAL_MATCH_H_
