// The flags that every command with a model has, spelled as docs/contract.md
// says.
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

// As given on the command line, not yet checked.
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

// MODEL, and what says how to load it.
void AddModelFlags(Command& command, EngineFlags* flags,
                   bool model_required = true);
// What says how to run a step.
void AddStepFlags(Command& command, EngineFlags* flags);
// Those, and what a command with requests has besides.
void AddEngineFlags(Command& command, EngineFlags* flags);
// --json [FILE]; `help` says what is written.
void AddJsonFlag(Command& command, const std::string& help, EngineFlags* flags);

// none: as stored.
Result<std::optional<Dtype>> ParseDtype(const std::string& text);
// The engine's options. device_kv_bytes stays 0 where the flag is not given.
Result<EngineOptions> ParseEngineOptions(const EngineFlags& flags);
// What can be said of them without the checkpoint, so before it is loaded;
// `selects`: those that they stand for.
Status CheckEngineFlags(const EngineFlags& flags,
                        const std::vector<std::string>& selects);
// The selections of a list with commas. Commas also separate a selection's own
// settings, key=value: such a piece belongs to the one before it. Fails where
// one is empty or occurs twice.
Result<std::vector<std::string>> SplitSelects(const std::string& list);
// What a selection stands for: `auto` is what the checkpoint asks for, if
// anything, else dense. Fails where that cannot be had.
Result<std::string> ResolveSelect(const std::string& spec,
                                  const NativeSelector& native_selector);
// What the engine is to be given for these: nothing where all read everything.
Result<std::vector<std::string>> SelectorsOf(
    const std::vector<std::string>& specs,
    const NativeSelector& native_selector);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_ENGINE_FLAGS_H_
