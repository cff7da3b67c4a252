// winnow eval: counts the questions of task files that a model answers.
#ifndef WINNOW_CLI_EVAL_EVAL_H_
#define WINNOW_CLI_EVAL_EVAL_H_

#include <string>

#include "cli/command/engine_flags.h"
#include "cli/command/kv_disk.h"
#include "cli/task/task_flags.h"

namespace winnow {

struct EvalFlags {
  EngineFlags engine;  // `select` may name several
  KvDiskFlags kv_disk;
  TaskFlags tasks;
  std::string match = "contains";
  std::string resume;
};

Command& AddEvalCommand(Command& program, EvalFlags* flags);
// Returns the exit status: 0, or 130 after Ctrl-C.
Result<int> RunEval(const EvalFlags& flags);

// The file that keeps answers until all are there; empty: none.
std::string EvalJournalPath(const EvalFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_EVAL_EVAL_H_
