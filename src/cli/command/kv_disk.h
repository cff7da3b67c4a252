// The folder of --kv-disk.
#ifndef WINNOW_CLI_COMMAND_KV_DISK_H_
#define WINNOW_CLI_COMMAND_KV_DISK_H_

#include <memory>
#include <string>

#include "cache/disk/disk_store.h"
#include "cli/command/loaded_model.h"
#include "engine/engine.h"

namespace winnow {

struct KvDiskFlags {
  std::string folder;  // empty: none
  std::string size;    // as typed; empty: the default
};

void AddKvDiskFlags(Command& command, KvDiskFlags* flags);

// Whether there is such a folder.
inline bool KeepsKv(const KvDiskFlags& flags) { return !flags.folder.empty(); }

// What the folder may take of the disk; 0 where there is none. Fails where the
// flags ask for what cannot be.
Result<int64_t> KvDiskBytes(const KvDiskFlags& flags);

// The folder's store for the model's KV, null where there is none. Says on
// standard error, unless `quiet`, where it is slower than it could be.
// REQUIRES: the flags are what KvDiskBytes takes; where they name a folder the
// model was opened with ModelUse::has_identity.
Result<std::unique_ptr<DiskStore>> OpenKvDisk(const KvDiskFlags& flags,
                                              const LoadedModel& loaded,
                                              bool quiet);

// A disk that fails costs time, never an answer: said on standard error, where
// the engine has one that did, and no more.
void PrintDiskFailures(const Engine& engine);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_KV_DISK_H_
