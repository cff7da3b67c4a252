// EngineFlags: the flags of every command with a model (docs/contract.md).
#ifndef WINNOW_CLI_COMMAND_ENGINE_FLAGS_H_
#define WINNOW_CLI_COMMAND_ENGINE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "tensor/dtype.h"

namespace winnow {

class Command;

// As typed, not yet checked.
struct EngineFlags {
  std::string model;
  std::string dtype = "auto";
  std::string device = "auto";
  int threads = 0;
  std::optional<double> gpu_memory_utilization;
  std::string max_model_len;
  int max_num_seqs = 16;
  int max_num_batched_tokens = 2048;
  std::string device_kv;
  std::string host_kv;
  std::string cache_budget;
  std::string restore = "auto";
  std::string select = "auto";
  bool batch_invariant = false;
  uint64_t seed = 0;
  bool json = false;
  std::string json_file;  // empty: standard output
  bool quiet = false;
};

// MODEL, and the flags of loading it.
void AddModelFlags(Command& command, EngineFlags* flags,
                   bool model_required = true);
// The flags of running a step.
void AddStepFlags(Command& command, EngineFlags* flags);
// The flags above, and those of a command with requests.
void AddEngineFlags(Command& command, EngineFlags* flags);
// --json [FILE]; `help` describes the output.
void AddJsonFlag(Command& command, const std::string& help, EngineFlags* flags);

// none: as stored.
Result<std::optional<Dtype>> ParseDtype(const std::string& text);
// The engine's options. device_kv_bytes stays 0 if the flag is not given.
Result<EngineOptions> ParseEngineOptions(const EngineFlags& flags);
// Checks that need no checkpoint, and so run before it is loaded. `selects`:
// the selections of the flags.
Status CheckEngineFlags(const EngineFlags& flags,
                        const std::vector<std::string>& selects);
// Splits a list of selections at commas. Commas also separate a selection's
// settings, key=value; such a part belongs to the selection before it. Fails if
// a selection is empty or occurs twice.
Result<std::vector<std::string>> SplitSelects(const std::string& list);
// The SPEC for a selection. `auto` is the checkpoint's native selector, or
// dense if there is none. Fails if the native selector is unavailable.
Result<std::string> ResolveSelect(const std::string& spec,
                                  const NativeSelector& native_selector);
// The engine's selectors for these selections; none if all are dense.
Result<std::vector<std::string>> SelectorsOf(
    const std::vector<std::string>& specs,
    const NativeSelector& native_selector);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_ENGINE_FLAGS_H_
