// Output of commands: standard output, or the file of --json.
#ifndef WINNOW_CLI_COMMAND_OUTPUT_H_
#define WINNOW_CLI_COMMAND_OUTPUT_H_

#include <string_view>

#include "base/result.h"
#include "cli/command/engine_flags.h"

namespace winnow {

// Prints to standard output. FlushOutput reports a failure; the formatting
// library would throw.
void Print(std::string_view text);

// Flushes all printed text. Fails if any of it since the process began was
// lost.
Status FlushOutput();

// As FlushOutput, before long work whose result will be printed. Also fails if
// standard output is a pipe without a reader.
Status CheckOutputIsRead();

// Prints "winnow: " and `message` to standard error as one line. Escapes
// control characters, which a path may contain.
void PrintError(std::string_view message);

// Fails if the file of --json, if named, cannot be written. Call before the
// work.
Status CheckJsonFile(const EngineFlags& flags);

// Writes `text` to the file of --json, whole or not at all. Without a file,
// prints and flushes it.
Status WriteJson(const EngineFlags& flags, std::string_view text);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_OUTPUT_H_
