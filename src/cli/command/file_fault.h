// FromFiles: separates wrong files (exit status 1) from a wrong command line
// (2).
#ifndef WINNOW_CLI_COMMAND_FILE_FAULT_H_
#define WINNOW_CLI_COMMAND_FILE_FAULT_H_

#include "base/result.h"

namespace winnow {

// Turns kInvalidArgument of a file's reader into kCorrupt. A bad value in a
// file is not a usage error.
template <typename T>
Result<T> FromFiles(Result<T> read) {
  if (read.ok() || read.error().code != ErrorCode::kInvalidArgument) {
    return read;
  }
  return Error{ErrorCode::kCorrupt, read.error().message};
}

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_FILE_FAULT_H_
