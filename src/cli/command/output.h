// What a command writes: standard output, or the file of --json.
#ifndef WINNOW_CLI_COMMAND_OUTPUT_H_
#define WINNOW_CLI_COMMAND_OUTPUT_H_

#include <string_view>

#include "base/result.h"
#include "cli/command/engine_flags.h"

namespace winnow {

// To standard output. What did not arrive is a failure that FlushOutput tells;
// the formatting library would throw.
void Print(std::string_view text);

// Sends on all that was printed. Fails where any of it, since the process
// began, did not arrive.
Status FlushOutput();

// As FlushOutput, for work whose result is still to be printed: fails also
// where standard output is a pipe that nobody reads any more.
Status CheckOutputIsRead();

// `message` to standard error as one line, "winnow: " before it: control
// characters, as a path may have them, are escaped.
void PrintError(std::string_view message);

// Whether the file of --json, if one is named, can be written: before the work
// whose result is to go there.
Status CheckJsonFile(const EngineFlags& flags);

// `text` to the file of --json, whole or not at all; to standard output, and
// flushed, where none is named.
Status WriteJson(const EngineFlags& flags, std::string_view text);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_OUTPUT_H_
