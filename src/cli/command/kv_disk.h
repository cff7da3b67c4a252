// KvDiskFlags: the folder of --kv-disk.
#ifndef WINNOW_CLI_COMMAND_KV_DISK_H_
#define WINNOW_CLI_COMMAND_KV_DISK_H_

#include <memory>
#include <string>

#include "cache/disk/disk_store.h"
#include "cli/command/loaded_model.h"
#include "engine/engine.h"

namespace winnow {

struct KvDiskFlags {
  std::string folder;  // empty: no folder
  std::string size;    // as typed; empty: the default
};

void AddKvDiskFlags(Command& command, KvDiskFlags* flags);

// True if there is such a folder.
inline bool KeepsKv(const KvDiskFlags& flags) { return !flags.folder.empty(); }

// The size of the folder's file; 0 without a folder. Fails if the flags are
// invalid.
Result<int64_t> KvDiskBytes(const KvDiskFlags& flags);

// The store in the folder for the model's KV; null without a folder. Says on
// standard error, unless `quiet`, if it is slower than possible. REQUIRES:
// KvDiskBytes accepts the flags; with a folder, the model was opened with
// ModelUse::has_identity.
Result<std::unique_ptr<DiskStore>> OpenKvDisk(const KvDiskFlags& flags,
                                              const LoadedModel& loaded,
                                              bool quiet);

// Prints the failures of the engine's disk to standard error, if there were
// any. A failing disk costs time and never an answer.
void PrintDiskFailures(const Engine& engine);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_KV_DISK_H_
