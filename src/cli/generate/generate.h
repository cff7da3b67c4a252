// winnow generate: continues one or several prompts.
#ifndef WINNOW_CLI_GENERATE_GENERATE_H_
#define WINNOW_CLI_GENERATE_GENERATE_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/command/engine_flags.h"
#include "cli/command/kv_disk.h"
#include "cli/task/prompts.h"

namespace winnow {

struct GenerateFlags {
  EngineFlags engine;
  KvDiskFlags kv_disk;
  std::vector<Prompt> prompts;
  std::optional<int> max_tokens;  // unset: 512, or the rest of the context
  // Unset: the values of generation_config.json; greedy if it has none.
  std::optional<float> temperature, top_p, min_p;
  std::optional<int> top_k;
  std::optional<float> repetition_penalty;
  std::vector<std::string> stop;
  std::optional<int> logprobs;
};

Command& AddGenerateCommand(Command& program, GenerateFlags* flags);
// Returns the exit status: 0, or 130 after Ctrl-C.
Result<int> RunGenerate(const GenerateFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_GENERATE_GENERATE_H_
