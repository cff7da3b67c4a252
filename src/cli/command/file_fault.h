// Whose fault it is: the exit status tells a wrong command line, 2, from files
// that are wrong, 1.
#ifndef WINNOW_CLI_COMMAND_FILE_FAULT_H_
#define WINNOW_CLI_COMMAND_FILE_FAULT_H_

#include "base/result.h"

namespace winnow {

// What came of reading files: a value in them that is out of range or
// malformed is theirs, not the command's.
template <typename T>
Result<T> FromFiles(Result<T> read) {
  if (read.ok() || read.error().code != ErrorCode::kInvalidArgument) {
    return read;
  }
  return Error{ErrorCode::kCorrupt, read.error().message};
}

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_FILE_FAULT_H_
