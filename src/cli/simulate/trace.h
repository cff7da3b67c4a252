// winnow trace: records the picks of a model's rows.
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

// Parses "0.5x,1x,2x" to thousandths of the budget, ascending; 1x is always
// included.
Result<std::vector<int>> ParseLevels(const std::string& text);

}  // namespace winnow

#endif  // WINNOW_CLI_SIMULATE_TRACE_H_
