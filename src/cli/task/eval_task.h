// A line of a task file: a question, and what must be answered.
#ifndef WINNOW_CLI_TASK_EVAL_TASK_H_
#define WINNOW_CLI_TASK_EVAL_TASK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace winnow {

// docs/contract.md, "Task files". Other fields are ignored.
struct EvalTask {
  std::string task;
  int64_t length = 0;
  std::vector<std::string> answers;  // at least one, none of them blank
  bool unordered = false;
  // `prompt`, or what `question` is about.
  std::string context;
  std::optional<std::string> question;
};

// `origin` is FILE:LINE and begins all messages:
//   FILE:LINE: field answers: must be a list of strings, is 7
Result<EvalTask> ParseEvalTask(std::string_view line,
                               const std::string& origin);

// What joins two texts: a space, unless white space is there.
std::string Joint(std::string_view before, std::string_view text);

// All that is asked, as one text.
std::string WholePrompt(const EvalTask& task);

// The answers as one text, in their order.
std::string JoinedAnswers(const std::vector<std::string>& answers);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_EVAL_TASK_H_
