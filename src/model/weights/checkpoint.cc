#include "model/weights/checkpoint.h"

#include <set>

#include "model/config/json_fields.h"

namespace winnow {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = size_t{64} << 20;

// A shard must lie in the folder itself: its name is a bare file name.
bool IsBareFileName(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && name != "." && name != ".." &&
         name.find('\0') == std::string::npos && path.filename() == path;
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& folder) {
  Checkpoint checkpoint;
  std::error_code ignored;
  checkpoint.path_ = folder / kSingleFile;
  if (std::filesystem::exists(checkpoint.path_, ignored)) {
    RETURN_IF_ERROR(checkpoint.AddFile(checkpoint.path_));
    return checkpoint;
  }
  checkpoint.path_ = folder / kIndexFile;
  if (!std::filesystem::exists(checkpoint.path_, ignored)) {
    return MakeError(ErrorCode::kNotFound,
                     "{}: has neither {} nor {}; only safetensors checkpoints "
                     "are read",
                     folder.string(), kSingleFile, kIndexFile);
  }
  RETURN_IF_ERROR(checkpoint.AddShards(folder));
  return checkpoint;
}

Result<Checkpoint> Checkpoint::OpenFile(const std::filesystem::path& file) {
  Checkpoint checkpoint;
  checkpoint.path_ = file;
  RETURN_IF_ERROR(checkpoint.AddFile(file));
  return checkpoint;
}

Status Checkpoint::AddFile(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors,
                   ParseSafetensors(file.bytes(), path.string()));
  for (StoredTensor& tensor : tensors) {
    const std::string name = tensor.name;
    const auto [at, is_first] =
        entries_.try_emplace(name, Entry{std::move(tensor), files_.size()});
    if (!is_first) {
      return MakeError(ErrorCode::kCorrupt, "{}: tensor {} is also in {}",
                       path.string(), Printable(name),
                       PathOf(at->second).string());
    }
  }
  files_.push_back(std::move(file));
  return Ok{};
}

Status Checkpoint::AddShards(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path_, kMaxIndexBytes));
  const JsonLimits limits = {.max_bytes = kMaxIndexBytes, .max_depth = 4};
  ASSIGN_OR_RETURN(const JsonFields index,
                   JsonFields::Parse(text, path_.string(), limits));
  ASSIGN_OR_RETURN(const JsonFields weight_map, index.Object("weight_map"));
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  for (const std::string& name : weight_map.Names()) {
    ASSIGN_OR_RETURN(std::string shard, weight_map.Text(name));
    if (!IsBareFileName(shard)) {
      return weight_map.Unexpected(name, "the name of a file in the folder",
                                   ErrorCode::kCorrupt);
    }
    shards.insert(shard);
    shard_of[name] = std::move(shard);
  }
  for (const std::string& shard : shards) {
    RETURN_IF_ERROR(AddFile(folder / shard));
  }
  for (const auto& [name, shard] : shard_of) {
    const Entry* entry = Find(name);
    if (entry == nullptr || PathOf(*entry).filename() != shard) {
      return MakeError(
          ErrorCode::kCorrupt, "{}: tensor {} must be in {}, is {}",
          path_.string(), Printable(name), Printable(shard),
          entry == nullptr ? "in no shard"
                           : "in " + PathOf(*entry).filename().string());
    }
  }
  return Ok{};
}

const Checkpoint::Entry* Checkpoint::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace winnow
