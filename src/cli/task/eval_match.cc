#include "cli/task/eval_match.h"

#include <algorithm>

#include "cli/task/eval_task.h"

namespace winnow {
namespace {

bool IsSpace(char c) {
  return std::string_view(" \t\r\n\f\v").find(c) != std::string_view::npos;
}

// Whether `text` is all of `answers`, each once, in any order, a space between
// two. Tries equal answers once: what is left decides, not which is which.
bool IsPermutation(std::string_view text, std::vector<std::string>& answers) {
  if (answers.empty()) return text.empty();
  std::string_view tried;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string answer = answers[i];
    if (answer == tried || !text.starts_with(answer)) continue;
    tried = answers[i];
    std::string_view rest = text.substr(answer.size());
    const bool last = answers.size() == 1;
    if (last != rest.empty() || (!last && rest.front() != ' ')) continue;
    if (!last) rest.remove_prefix(1);
    answers.erase(answers.begin() + static_cast<int64_t>(i));
    const bool fits = IsPermutation(rest, answers);
    answers.insert(answers.begin() + static_cast<int64_t>(i), answer);
    if (fits) return true;
    tried = answers[i];
  }
  return false;
}

}  // namespace

Result<MatchRule> ParseMatchRule(std::string_view text) {
  if (text == "contains") return MatchRule::kContains;
  if (text == "exact") return MatchRule::kExact;
  if (text == "regex") return MatchRule::kRegex;
  return MakeError(ErrorCode::kInvalidArgument,
                   "--match must be contains, exact or regex, is {}", text);
}

std::string CollapseWhiteSpace(std::string_view text) {
  std::string collapsed;
  for (const char c : text) {
    if (!IsSpace(c)) {
      collapsed += c;
    } else if (!collapsed.empty() && collapsed.back() != ' ') {
      collapsed += ' ';
    }
  }
  if (collapsed.ends_with(' ')) collapsed.pop_back();
  return collapsed;
}

Result<AnswerMatcher> AnswerMatcher::Create(const Wanted& wanted) {
  CHECK(!wanted.answers.empty());
  AnswerMatcher matcher(wanted.rule, wanted.unordered);
  for (const std::string& answer : wanted.answers) {
    if (wanted.rule != MatchRule::kRegex) {
      matcher.answers_.push_back(CollapseWhiteSpace(answer));
      continue;
    }
    ASSIGN_OR_RETURN(DeepRegex pattern, DeepRegex::Compile(answer));
    matcher.patterns_.push_back(std::move(pattern));
  }
  if (wanted.unordered) {
    std::sort(matcher.answers_.begin(), matcher.answers_.end());
  }
  return matcher;
}

bool AnswerMatcher::Contains(const std::string& text) const {
  size_t from = 0;
  for (const std::string& answer : answers_) {
    const size_t at = text.find(answer, unordered_ ? 0 : from);
    if (at == std::string::npos) return false;
    from = at + answer.size();
  }
  return true;
}

Result<bool> AnswerMatcher::Finds(const std::string& text) const {
  size_t from = 0;
  for (const DeepRegex& pattern : patterns_) {
    ASSIGN_OR_RETURN(const std::optional<size_t> end,
                     pattern.FindEnd(text, unordered_ ? 0 : from));
    if (!end) return false;
    from = *end;
  }
  return true;
}

Result<bool> AnswerMatcher::Matches(std::string_view text) const {
  const std::string collapsed = CollapseWhiteSpace(text);
  switch (rule_) {
    case MatchRule::kContains:
      return Contains(collapsed);
    case MatchRule::kExact: {
      if (!unordered_) return collapsed == JoinedAnswers(answers_);
      std::vector<std::string> answers = answers_;
      return IsPermutation(collapsed, answers);
    }
    case MatchRule::kRegex:
      return Finds(collapsed);
  }
  CHECK(false, "rule={}", static_cast<int>(rule_));
}

}  // namespace winnow
