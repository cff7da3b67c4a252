// EvalTask: a line of a task file, which is a question and its answers.
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
  std::vector<std::string> answers;  // at least one; none is blank
  bool unordered = false;
  // `prompt`, or the text that `question` is about.
  std::string context;
  std::optional<std::string> question;
};

// `origin` is FILE:LINE and begins all messages:
//   FILE:LINE: field answers: must be a list of strings, is 7
Result<EvalTask> ParseEvalTask(std::string_view line,
                               const std::string& origin);

// The separator of two texts: a space, or nothing if white space is there.
std::string Joint(std::string_view before, std::string_view text);

// The whole prompt as one text.
std::string WholePrompt(const EvalTask& task);

// The answers as one text, in their order.
std::string JoinedAnswers(const std::vector<std::string>& answers);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_EVAL_TASK_H_
