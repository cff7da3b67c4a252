// winnow trace: what a model's rows choose to read, written down.
#ifndef WINNOW_CLI_SIMULATE_TRACE_H_
#define WINNOW_CLI_SIMULATE_TRACE_H_

#include <string>
#include <vector>

#include "cli/command/engine_flags.h"
#include "cli/task/task_flags.h"

namespace winnow {

struct TraceFlags {
  EngineFlags engine;
  TaskFlags tasks;
  std::string out;
  std::string levels = "0.5x,1x,1.5x,2x";
};

Command& AddTraceCommand(Command& program, TraceFlags* flags);
// Returns the exit status.
Result<int> RunTrace(const TraceFlags& flags);

// "0.5x,1x,2x" as thousandths of the budget, ascending; 1x is one of them, said
// or not.
Result<std::vector<int>> ParseLevels(const std::string& text);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_TRACE_H_
