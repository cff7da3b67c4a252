// TaskFlags: the flags of commands that ask questions of task files.
#ifndef WINNOW_CLI_TASK_TASK_FLAGS_H_
#define WINNOW_CLI_TASK_TASK_FLAGS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command/command.h"

namespace winnow {

struct TaskFlags {
  std::vector<std::string> files;
  std::optional<int> max_tokens;
  std::optional<int> limit;
  bool skip_bad = false;
};

// `files_help`: the help text of FILE.
void AddTaskFlags(Command& command, std::string_view files_help,
                  TaskFlags* flags);

}  // namespace winnow

#endif  // WINNOW_CLI_TASK_TASK_FLAGS_H_
