// winnow info: describes a checkpoint and the memory that it needs.
#ifndef WINNOW_CLI_INFO_INFO_H_
#define WINNOW_CLI_INFO_INFO_H_

#include "cli/command/engine_flags.h"

namespace winnow {

struct InfoFlags {
  EngineFlags engine;
};

Command& AddInfoCommand(Command& program, InfoFlags* flags);
// Returns the exit status.
Result<int> RunInfo(const InfoFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_INFO_INFO_H_
