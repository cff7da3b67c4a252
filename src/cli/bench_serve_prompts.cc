#include "cli/bench_serve_prompts.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "cli/eval_task.h"

namespace winnow {
namespace {

constexpr size_t kMaxFileBytes = size_t{8} << 30;
// As eval leaves for words around an answer.
constexpr int kSlackTokens = 32;

Result<ServePrompt> PromptOf(std::string_view line, const std::string& origin,
                             MatchRule match, std::optional<int> output_len) {
  ASSIGN_OR_RETURN(const EvalTask task, ParseEvalTask(line, origin));
  Result<AnswerMatcher> matcher = AnswerMatcher::Create(
      {.rule = match, .answers = task.answers, .unordered = task.unordered});
  if (!matcher.ok()) {
    return MakeError(ErrorCode::kCorrupt, "{}: field answers: {}", origin,
                     matcher.error().message);
  }
  const auto answer_bytes =
      static_cast<int>(JoinedAnswers(task.answers).size());
  return ServePrompt{
      .text = WholePrompt(task),
      .max_tokens = output_len.value_or(answer_bytes + kSlackTokens),
      .matcher = std::make_shared<AnswerMatcher>(*std::move(matcher))};
}

}  // namespace

Result<std::vector<ServePrompt>> ReadTaskPrompts(
    const std::vector<std::string>& paths, MatchRule match,
    std::optional<int> output_len) {
  std::vector<ServePrompt> prompts;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxFileBytes));
    std::string_view rest = content;
    for (int number = 1; !rest.empty(); ++number) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (CollapseWhiteSpace(line).empty()) continue;
      ASSIGN_OR_RETURN(ServePrompt prompt,
                       PromptOf(line, fmt::format("{}:{}", path, number), match,
                                output_len));
      prompts.push_back(std::move(prompt));
    }
  }
  if (prompts.empty()) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: must have at least 1 line, is empty", paths.front());
  }
  return prompts;
}

size_t WordTokens::WordsOf(double tokens) const {
  return static_cast<size_t>(
      std::max(1.0, std::round((tokens - besides) / per_word)));
}

}  // namespace winnow
