// DigestMemory: hashes of files, kept from one process to the next, so that an
// unchanged file is hashed once.
#ifndef WINNOW_MODEL_WEIGHTS_DIGEST_MEMORY_H_
#define WINNOW_MODEL_WEIGHTS_DIGEST_MEMORY_H_

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/content_hash.h"
#include "base/file.h"

namespace winnow {

// Owns the entries of a file of JSON lines, which only its user may write. A
// file or line that is damaged or unreadable counts as absent. A failed write
// is no error: the next process hashes again. One thread.
class DigestMemory {
 public:
  // An empty path: nothing is remembered.
  explicit DigestMemory(std::filesystem::path file);

  // Where a user's is: winnow/weights.jsonl in $XDG_CACHE_HOME, or in ~/.cache;
  // empty where there is neither.
  static std::filesystem::path UsersFile();

  // The file's hash when it had this stamp; none where that is not known.
  std::optional<ContentHash> Find(const std::filesystem::path& file,
                                  const FileStamp& stamp) const;
  // REQUIRES: it hashed to that, and has had that stamp all the time.
  void Remember(const std::filesystem::path& file, const FileStamp& stamp,
                const ContentHash& hash);
  // Writes what it was told to remember, beside what others wrote meanwhile.
  void Save();

 private:
  const std::filesystem::path file_;
  // Lines by the path of the file that they are about.
  std::map<std::string, std::string> lines_;
  std::map<std::string, std::string> unsaved_;
};

}  // namespace winnow

#endif  // WINNOW_MODEL_WEIGHTS_DIGEST_MEMORY_H_
