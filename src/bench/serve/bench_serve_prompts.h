// What a load asks: from task files, or random words.
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
  // Says whether an answer is right; null: nobody knows.
  std::shared_ptr<const AnswerMatcher> matcher = {};
};

// One of each line of the task files, in their order. Fails with FILE:LINE and
// the reason. `output_len`: max_tokens of each; none: the answer's bytes, of
// which a token has at least one, and 32.
Result<std::vector<ServePrompt>> ReadTaskPrompts(
    const std::vector<std::string>& paths, MatchRule match,
    std::optional<int> output_len);

// How many tokens a server counts in a prompt of random words.
struct WordTokens {
  double per_word = 1;
  double besides = 0;  // of a template, and what begins a text

  // Words of a prompt of about so many tokens, at least 1.
  size_t WordsOf(double tokens) const;
};

// A prompt of random words of about so many tokens; each number of a seed has
// its own.
ServePrompt RandomPrompt(int64_t tokens, int max_tokens,
                         const WordTokens& counted, uint64_t seed,
                         size_t number);
// One of a trace's lengths; prompts share the words of the blocks that they
// share.
ServePrompt TracedPrompt(const TracedRequest& request,
                         const WordTokens& counted, uint64_t seed,
                         size_t number);

}  // namespace winnow

#endif  // WINNOW_BENCH_SERVE_BENCH_SERVE_PROMPTS_H_
