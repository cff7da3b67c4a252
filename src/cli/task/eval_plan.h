// What an evaluation runs: the questions of its files, by what they share.
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
  int vocab_size = 0;             // of the model, whatever the tokenizer has
  std::optional<int> max_tokens;  // none: from the answers
  std::optional<int> limit;       // lines of a file that are read
  bool skip_bad = false;
};

// An answer's tokens where it comes first, and behind another one.
using AnswerForms = std::array<std::vector<int32_t>, 2>;

// A line of a file, ready to be asked.
struct EvalQuestion {
  int file = 0;  // index
  int line = 0;  // from 1
  std::string task;
  int64_t length = 0;
  AnswerMatcher matcher;
  // What follows the group's prefix, at least one token, and how many of its
  // last run as decode rows.
  std::vector<int32_t> tokens;
  int num_question_tokens = 0;
  // What would be a right answer's tokens; none where answers are patterns.
  std::vector<int32_t> answer;
  // The same answer by answer, the longest first, where any order is right.
  std::vector<AnswerForms> unordered = {};
  int max_tokens = 0;
};

// Questions about one text, which is read once.
struct EvalGroup {
  std::vector<int32_t> prefix;  // may be empty
  std::vector<EvalQuestion> questions;

  // What the longest of its answers may reach, told or free.
  int MaxLength() const;
};

struct EvalFile {
  std::string path;
  uint64_t digest = 0;  // of the lines that were read
};

struct EvalPlan {
  std::vector<EvalFile> files;
  std::vector<EvalGroup> groups;     // by first occurrence
  std::vector<std::string> skipped;  // why, a line each
  // Lines whose answers have room, but not all that is left to others for
  // words around the answer; the first of them, said in one line.
  int num_cramped = 0;
  std::string first_cramped;

  int num_questions() const;
};

// Reads the files and makes tokens of them. The first bad line ends it with
// FILE:LINE and the reason, unless bad lines are to be skipped; no line left is
// an error all the same.
Result<EvalPlan> ReadEvalPlan(const std::vector<std::string>& paths,
                              const Tokenizer& tokenizer,
                              const EvalPlanOptions& options);

// Pages of KV that a group takes: its prefix's, and one answer's besides.
int64_t PrefixPages(const EvalGroup& group);
int64_t AnswerPages(const EvalGroup& group);

// Token ids of `text` as it stands behind `before`: without special tokens, and
// without what a tokenizer puts in front of a text's beginning.
Result<std::vector<int32_t>> EncodeAfter(const Tokenizer& tokenizer,
                                         std::string_view before,
                                         std::string_view text);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_EVAL_PLAN_H_
