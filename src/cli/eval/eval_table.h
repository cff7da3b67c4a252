// EvalRow: the results of an evaluation by cell, as a table and as JSON.
#ifndef WINNOW_CLI_EVAL_EVAL_TABLE_H_
#define WINNOW_CLI_EVAL_EVAL_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/command/kv_use.h"
#include "cli/task/eval_plan.h"

namespace winnow {

// Names an answer: the question's place, and the index of the selection.
struct EvalKey {
  int file = 0;
  int line = 0;
  int select = 0;

  friend auto operator<=>(const EvalKey&, const EvalKey&) = default;
};

// The result of one answer.
struct EvalOutcome {
  bool exact = false;         // right by --match
  int num_answer_tokens = 0;  // 0: the answers are patterns
  int num_right = 0;          // of these, each with the right tokens before it
  int num_free_right = 0;  // of these, in the free answer, in any valid order
  int64_t num_decode_rows = 0;
  double tokens_read_share = 0;  // averaged over those rows
  double seconds = 0;            // of the engine's time

  friend bool operator==(const EvalOutcome&, const EvalOutcome&) = default;
};

// Ordered, so that sums do not depend on the order of arrival.
using EvalOutcomes = std::map<EvalKey, EvalOutcome>;

// The answers of one file, task, length and selection.
struct EvalRow {
  std::string file;
  std::string task;
  int64_t length = 0;
  std::string select;
  int n = 0;
  int num_exact = 0;
  int64_t num_answer_tokens = 0;
  int64_t num_right = 0;
  int64_t num_free_right = 0;
  int64_t num_decode_rows = 0;
  double sum_of_read_shares = 0;  // over decode rows
  double seconds = 0;
};

// One row for each cell with an answer: by selection, file, task in order of
// its first line, and length.
std::vector<EvalRow> MakeEvalRows(const EvalPlan& plan,
                                  const std::vector<std::string>& selects,
                                  const EvalOutcomes& outcomes);

struct Interval {
  double low = 0;
  double high = 0;
};
// Wilson's score interval at 95 % (Wilson 1927, "Probable inference, the law of
// succession, and statistical inference"). REQUIRES: 0 <= num_right <= n, n >
// 0.
Interval WilsonInterval(int num_right, int n);

// docs/contract.md, "eval --json". `use`: totals of the requests that ran.
std::string EvalJson(const std::string& model, int64_t num_skipped,
                     const KvUse& use, const std::vector<EvalRow>& rows);

// For people: a line for each row, under a heading for each selection. Ends in
// a line break.
std::string EvalTable(const std::vector<EvalRow>& rows);

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_TABLE_H_
