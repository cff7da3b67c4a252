// Checkpoint: the tensors of a Hugging Face folder, mapped.
#ifndef WINNOW_MODEL_WEIGHTS_CHECKPOINT_H_
#define WINNOW_MODEL_WEIGHTS_CHECKPOINT_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/weights/safetensors.h"

namespace winnow {

// Owns the mappings of one safetensors file, or of the shards that an index
// names, and knows every tensor in them. Each tensor's bytes are inside its
// file, each name stands once. Const after Open: any thread may read.
class Checkpoint {
 public:
  // Opens `folder`/model.safetensors, or else the shards named by
  // `folder`/model.safetensors.index.json.
  static Result<Checkpoint> Open(const std::filesystem::path& folder);
  // Opens one safetensors file.
  static Result<Checkpoint> OpenFile(const std::filesystem::path& file);

  struct Entry {
    StoredTensor tensor;
    size_t file = 0;
  };

  // The tensor, or nullptr.
  const Entry* Find(std::string_view name) const;
  const std::map<std::string, Entry, std::less<>>& entries() const {
    return entries_;
  }
  // The file that an entry lies in.
  const std::filesystem::path& PathOf(const Entry& entry) const {
    return files_[entry.file].path();
  }
  // All of its files, ascending by path.
  const std::vector<MappedFile>& files() const { return files_; }
  // What messages about the whole checkpoint name: the file or the index.
  const std::filesystem::path& path() const { return path_; }

 private:
  // Maps one file and takes in its tensors.
  Status AddFile(const std::filesystem::path& path);
  Status AddShards(const std::filesystem::path& folder);

  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_CHECKPOINT_H_
