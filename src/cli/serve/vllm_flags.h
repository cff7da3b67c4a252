// VllmFlags: flags of vLLM's `serve` that have another name here, or no effect.
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
  bool splits_thoughts = true;  // false: --reasoning-parser none
  // For each given flag without effect, the reason: "--NAME has no effect:
  // ...".
  std::vector<std::string> idle = {};
};

// A flag with the same meaning sets the value of this server's flag. A flag
// without effect is accepted, or refused if its value asks for one; --help
// names such flags in its last line only.
void AddVllmFlags(Command& command, EngineFlags* engine, VllmFlags* flags);

// A number of bytes in vLLM's form: "1073741824", "1G" (2^30), "1.5g"
// (decimal).
Result<int64_t> ParseVllmBytes(const std::string& text);

}  // namespace winnow

#endif  // WINNOW_CLI_SERVE_VLLM_FLAGS_H_
