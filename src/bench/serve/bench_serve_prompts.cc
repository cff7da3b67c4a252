#include "bench/serve/bench_serve_prompts.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "cli/task/eval_task.h"
#include "load/random_words.h"

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

// Consecutive seeds of runs, and their requests', must not meet.
uint64_t SeedOf(uint64_t seed, uint64_t number) {
  uint64_t mixed = seed * 0x9E3779B97F4A7C15 + number;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  return mixed ^ (mixed >> 27);
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

ServePrompt RandomPrompt(int64_t tokens, int max_tokens,
                         const WordTokens& counted, uint64_t seed,
                         size_t number) {
  return {.text = RandomWords(counted.WordsOf(static_cast<double>(tokens)),
                              SeedOf(~seed, number)),
          .max_tokens = max_tokens};
}

ServePrompt TracedPrompt(const TracedRequest& request,
                         const WordTokens& counted, uint64_t seed,
                         size_t number) {
  ServePrompt prompt{.text = {},
                     .max_tokens = static_cast<int>(request.output_tokens)};
  size_t words = counted.WordsOf(static_cast<double>(request.prompt_tokens));
  if (request.hash_ids.empty()) {
    prompt.text = RandomWords(words, SeedOf(~seed, number));
    return prompt;
  }
  const size_t block_words =
      WordTokens{.per_word = counted.per_word}.WordsOf(kTraceBlockTokens);
  for (size_t i = 0; i < request.hash_ids.size() && words > 0; ++i) {
    const bool last = i + 1 == request.hash_ids.size();
    const size_t count = last ? words : std::min(words, block_words);
    if (i > 0) prompt.text += ' ';
    prompt.text += RandomWords(
        count, SeedOf(seed, static_cast<uint64_t>(request.hash_ids[i])));
    words -= count;
  }
  return prompt;
}

}  // namespace winnow
