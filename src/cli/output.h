// What a command writes: standard output, or the file of --json.
#ifndef WINNOW_CLI_OUTPUT_H_
#define WINNOW_CLI_OUTPUT_H_

#include <string_view>

#include "base/result.h"
#include "cli/engine_flags.h"

namespace winnow {

// To standard output. What did not arrive is a failure that main tells once,
// when all has been flushed; the formatting library would throw.
void Print(std::string_view text);

// `message` to standard error as one line, "winnow: " before it: control
// characters, as a path may have them, are escaped.
void PrintError(std::string_view message);

// Whether the file of --json, if one is named, can be written: before the work
// whose result is to go there.
Status CheckJsonFile(const EngineFlags& flags);

// `text` to the file of --json, whole or not at all; to standard output where
// none is named.
Status WriteJson(const EngineFlags& flags, std::string_view text);

}  // namespace winnow

#endif  // WINNOW_CLI_OUTPUT_H_
