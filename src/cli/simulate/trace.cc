#include "cli/simulate/trace.h"

#include <algorithm>
#include <cmath>

#include "cli/command/command.h"
#include "cli/command/flag_value.h"
#include "simulate/trace.h"

namespace winnow {

Command& AddTraceCommand(Command& program, TraceFlags* flags) {
  Command& command = program.AddCommand(
      "trace",
      "Answer the questions of task files and record what each row reads");
  AddModelFlags(command, &flags->engine);
  AddStepFlags(command, &flags->engine);
  AddTaskFlags(command, "Task files, as winnow eval reads them", &flags->tasks);
  command.AddFlag({.name = "--select",
                   .value_name = "SPEC",
                   .help = "The selector that is recorded (quest:budget=2K; "
                           "default: what the checkpoint asks for)"},
                  Text(&flags->engine.select));
  command.AddFlag({.name = "--out",
                   .value_name = "TRACE",
                   .help = "File to write, for winnow simulate",
                   .required = true},
                  Word(&flags->out));
  command.AddFlag({.name = "--levels",
                   .value_name = "LIST",
                   .help = "Multiples of the budget at which lists are "
                           "recorded: ranks in coarse steps, those behind 1x "
                           "are next (default 0.5x,1x,1.5x,2x)"},
                  Text(&flags->levels));
  command.AddFlag({.name = "--quiet",
                   .help = "No progress and no closing line on standard error",
                   .values = Flag::Values::kNone},
                  Switch(&flags->engine.quiet));
  return command;
}

Result<std::vector<int>> ParseLevels(const std::string& text) {
  std::vector<int> levels = {kBudgetLevel};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string piece = text.substr(begin, end - begin);
    begin = end + 1;
    double times = 0;
    if (piece.ends_with('x')) {
      piece.pop_back();
      const std::string complaint = PositiveNumber(&times)(piece);
      if (!complaint.empty()) times = 0;
    }
    const double level = std::round(times * kBudgetLevel);
    if (level < 1 || level > kMaxLevel) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--levels must be multiples of the budget from 0.001x "
                       "to {}x (\"1x,1.5x,2x\"), is \"{}\"",
                       kMaxLevel / kBudgetLevel, text);
    }
    levels.push_back(static_cast<int>(level));
  }
  std::ranges::sort(levels);
  const auto repeated = std::ranges::unique(levels);
  levels.erase(repeated.begin(), repeated.end());
  if (std::ssize(levels) > kMaxLevels) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--levels must be at most {}, are {}", kMaxLevels,
                     levels.size());
  }
  return levels;
}

}  // namespace winnow
