// vLLM's flags of `serve` that are spelled otherwise here, or change nothing.
#ifndef WINNOW_CLI_SERVE_VLLM_FLAGS_H_
#define WINNOW_CLI_SERVE_VLLM_FLAGS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command/engine_flags.h"

namespace winnow {

class Command;

struct VllmFlags {
  bool prefix_caching = true;
  bool splits_thoughts = true;  // --reasoning-parser none: they are not
  // Of each that was given and changes nothing, why: "--NAME has no effect:
  // ...".
  std::vector<std::string> idle = {};
};

// What means the same writes what the flag of our own would; what changes
// nothing is taken, and refused where its value asks for something. Those are
// not among the flags of --help, but in its last line.
void AddVllmFlags(Command& command, EngineFlags* engine, VllmFlags* flags);

// A number of bytes as vLLM has it: "1073741824", "1G" (2^30), "1.5g"
// (decimal).
Result<int64_t> ParseVllmBytes(const std::string& text);

}  // namespace winnow

#endif  // WINNOW_CLI_SERVE_VLLM_FLAGS_H_
