// ServePrompt: a load's questions, from task files or random words.
#ifndef WINNOW_BENCH_SERVE_BENCH_SERVE_PROMPTS_H_
#define WINNOW_BENCH_SERVE_BENCH_SERVE_PROMPTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/task/eval_match.h"
#include "load/replay_trace.h"

namespace winnow {

// One request's question.
struct ServePrompt {
  std::string text;
  int max_tokens = 0;
  // Decides whether an answer is right; null: unknown.
  std::shared_ptr<const AnswerMatcher> matcher = {};
};

// One prompt for each line of the task files, in order. Fails with FILE:LINE
// and the reason. `output_len`: max_tokens of each. None: the answer's bytes,
// because a token has at least one, plus 32.
Result<std::vector<ServePrompt>> ReadTaskPrompts(
    const std::vector<std::string>& paths, MatchRule match,
    std::optional<int> output_len);

// The number of tokens that a server counts in a prompt of random words.
struct WordTokens {
  double per_word = 1;
  double besides = 0;  // of a template and the text's beginning

  // The words of a prompt of about `tokens` tokens, at least 1.
  size_t WordsOf(double tokens) const;
};

// A prompt of random words with about `tokens` tokens. It differs for each
// `number` of a seed.
ServePrompt RandomPrompt(int64_t tokens, int max_tokens,
                         const WordTokens& counted, uint64_t seed,
                         size_t number);
// A prompt of a traced request's length. Prompts with equal blocks have equal
// words there.
ServePrompt TracedPrompt(const TracedRequest& request,
                         const WordTokens& counted, uint64_t seed,
                         size_t number);

}  // namespace winnow

#endif  // WINNOW_BENCH_SERVE_BENCH_SERVE_PROMPTS_H_
