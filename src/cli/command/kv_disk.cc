#include "cli/command/kv_disk.h"

#include <algorithm>

#include "base/direct_folder.h"
#include "base/size_text.h"
#include "cli/command/command.h"
#include "cli/command/flag_value.h"
#include "cli/command/output.h"
#include "engine/engine_options.h"
#include "model/forward/model_identity.h"

namespace winnow {
namespace {

constexpr int64_t kDefaultBytes = int64_t{16} << 30;

// All that every page of the folder has in common, for people to compare.
NamedValues MadeWith(const Model& model) {
  NamedValues made_with = KvIdentity(model);
  made_with.emplace_back(
      "layout of a page",
      fmt::format("{} tokens: layer, head, K, V", kPageTokens));
  return made_with;
}

}  // namespace

void AddKvDiskFlags(Command& command, KvDiskFlags* flags) {
  command.AddFlag({.name = "--kv-disk",
                   .value_name = "DIR",
                   .help = "A folder that keeps the KV of prompts for the next "
                           "time; one process uses it at a time"},
                  Word(&flags->folder));
  command.AddFlag({.name = "--kv-disk-size",
                   .value_name = "SIZE",
                   .help = "How much of the disk it takes, at once (default "
                           "16GiB, or more where the folder has more)"},
                  Word(&flags->size));
}

Result<int64_t> KvDiskBytes(const KvDiskFlags& flags) {
  if (flags.folder.empty()) {
    if (flags.size.empty()) return 0;
    return MakeError(ErrorCode::kInvalidArgument,
                     "--kv-disk-size needs --kv-disk, which names the folder");
  }
  if (flags.size.empty()) return kDefaultBytes;
  const Result<int64_t> size = ParseBytes(flags.size);
  if (!size.ok()) {
    return MakeError(ErrorCode::kInvalidArgument, "--kv-disk-size: {}",
                     size.error().message);
  }
  if (*size > 0) return *size;
  return MakeError(ErrorCode::kInvalidArgument,
                   "--kv-disk-size must hold at least one page of KV, is "
                   "\"{}\"",
                   flags.size);
}

Result<std::unique_ptr<DiskStore>> OpenKvDisk(const KvDiskFlags& flags,
                                              const LoadedModel& loaded,
                                              bool quiet) {
  ASSIGN_OR_RETURN(int64_t max_bytes, KvDiskBytes(flags));
  if (max_bytes == 0) return std::unique_ptr<DiskStore>();
  const Model& model = *loaded.model;
  const int64_t page_bytes =
      kPageTokens * KvBytesPerToken(model.config(), model.dtypes().kv);
  // Before the folder is made.
  RETURN_IF_ERROR(NumDiskSlots("--kv-disk-size", page_bytes, max_bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<DirectFolder> folder,
                   DirectFolder::Open(flags.folder, {}));
  if (!quiet && !folder->note().empty()) PrintError(folder->note());
  ASSIGN_OR_RETURN(const int64_t num_bytes, folder->num_bytes());
  if (flags.size.empty()) max_bytes = std::max(max_bytes, num_bytes);
  if (!quiet && max_bytes < num_bytes) {
    PrintError(fmt::format(
        "{}: has {} and --kv-disk-size is {}: what lies behind is given up",
        flags.folder, FormatBytes(num_bytes), FormatBytes(max_bytes)));
  }
  return DiskStore::Open(
      std::move(folder),
      {.header = {.made_with = MadeWith(model), .piece_bytes = page_bytes},
       .max_bytes = max_bytes});
}

void PrintDiskFailures(const Engine& engine) {
  if (engine.disk() == nullptr) return;
  if (const std::optional<Error>& end = engine.disk()->end()) {
    PrintError(NotKept(*end));
  }
  const DiskCounts& counts = engine.disk()->store().counts();
  const int64_t num_failed = counts.num_failed_writes + counts.num_failed_reads;
  if (num_failed == 0) return;
  PrintError(fmt::format("{} pages of KV were not kept or not found again: {}",
                         num_failed, counts.first_failure));
}

}  // namespace winnow
