// EvalPlan: the questions of an evaluation's files, grouped by the text that
// they share.
#ifndef WINNOW_CLI_TASK_EVAL_PLAN_H_
#define WINNOW_CLI_TASK_EVAL_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/task/eval_match.h"
#include "cli/task/eval_task.h"
#include "text/tokenize/tokenizer.h"

namespace winnow {

struct EvalPlanOptions {
  MatchRule match = MatchRule::kContains;
  int max_model_len = 0;
  int vocab_size = 0;             // of the model, not the tokenizer
  std::optional<int> max_tokens;  // none: from the answers
  std::optional<int> limit;       // lines read of each file
  bool skip_bad = false;
};

// An answer's tokens at the beginning, and behind another answer.
using AnswerForms = std::array<std::vector<int32_t>, 2>;

// A line of a file, encoded.
struct EvalQuestion {
  int file = 0;  // index
  int line = 0;  // from 1
  std::string task;
  int64_t length = 0;
  AnswerMatcher matcher;
  // The tokens behind the group's prefix, at least one. The last
  // num_question_tokens run as decode rows.
  std::vector<int32_t> tokens;
  int num_question_tokens = 0;
  // A right answer's tokens; empty if answers are patterns.
  std::vector<int32_t> answer;
  // The tokens of each answer, the longest first, if any order is right.
  std::vector<AnswerForms> unordered = {};
  int max_tokens = 0;
};

// Questions about one text, which is read once.
struct EvalGroup {
  std::vector<int32_t> prefix;  // may be empty
  std::vector<EvalQuestion> questions;

  // The greatest length of its answers, forced or free.
  int MaxLength() const;
};

struct EvalFile {
  std::string path;
  uint64_t digest = 0;  // of the lines that were read
};

struct EvalPlan {
  std::vector<EvalFile> files;
  std::vector<EvalGroup> groups;     // by first occurrence
  std::vector<std::string> skipped;  // the reason for each skipped line
  // Lines whose answers fit, but with less room for other words than the rest
  // has; and the first of them, in one line.
  int num_cramped = 0;
  std::string first_cramped;

  int num_questions() const;
};

// Reads and encodes the files. Fails at the first bad line with FILE:LINE and
// the reason, unless bad lines are skipped. Fails if no line is left.
Result<EvalPlan> ReadEvalPlan(const std::vector<std::string>& paths,
                              const Tokenizer& tokenizer,
                              const EvalPlanOptions& options);

// Pages of KV of a group: its prefix's, and those of one answer beside.
int64_t PrefixPages(const EvalGroup& group);
int64_t AnswerPages(const EvalGroup& group);

// Token ids of `text` as it stands behind `before`, without special tokens and
// without the prefix that a tokenizer adds to a text's beginning.
Result<std::vector<int32_t>> EncodeAfter(const Tokenizer& tokenizer,
                                         std::string_view before,
                                         std::string_view text);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_EVAL_PLAN_H_
