// AnswerMatcher: decides whether a text answers a question (eval's --match).
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
  kExact,     // the text is exactly the answers, joined by spaces
  kRegex      // every answer, a regular expression (ECMAScript), matches
};

// "contains", "exact" or "regex".
Result<MatchRule> ParseMatchRule(std::string_view text);

// Replaces every run of white space by one space, and strips both ends.
std::string CollapseWhiteSpace(std::string_view text);

// The answers of one question. In order, each answer must be found behind the
// end of the one before. Unordered, each may be anywhere, and an exact text is
// any permutation. White space is collapsed as by CollapseWhiteSpace. Case
// matters.
class AnswerMatcher {
 public:
  struct Wanted {
    MatchRule rule = MatchRule::kContains;
    std::vector<std::string> answers;  // at least one, not blank
    bool unordered = false;
  };
  // Fails if an answer should be a regular expression and is invalid or too
  // long.
  static Result<AnswerMatcher> Create(const Wanted& wanted);

  // Fails only if a text is too long for a regular expression (DeepRegex).
  Result<bool> Matches(std::string_view text) const;
  // True if a match stays a match whatever text follows.
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
  std::vector<std::string> answers_;  // collapsed; empty for kRegex
  std::vector<DeepRegex> patterns_;   // for kRegex
};

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_EVAL_MATCH_H_
