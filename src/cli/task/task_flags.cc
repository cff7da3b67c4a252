#include "cli/task/task_flags.h"

#include "cli/command/flag_value.h"

namespace winnow {

void AddTaskFlags(Command& command, std::string_view files_help,
                  TaskFlags* flags) {
  command.AddFlag({.name = "FILE",
                   .help = std::string(files_help),
                   .values = Flag::Values::kOneEachTime,
                   .required = true},
                  EachText(&flags->files));
  command.AddFlag({.name = "--max-tokens",
                   .value_name = "N",
                   .help = "Tokens to generate at most (default: twice the "
                           "answer's, and 32)"},
                  WholeNumber(1, INT32_MAX, &flags->max_tokens));
  command.AddFlag({.name = "--limit",
                   .value_name = "N",
                   .help = "The first N lines of each file"},
                  WholeNumber(1, INT32_MAX, &flags->limit));
  command.AddFlag({.name = "--skip-bad",
                   .help = "Go on where a line is bad, and count those",
                   .values = Flag::Values::kNone},
                  Switch(&flags->skip_bad));
}

}  // namespace winnow
