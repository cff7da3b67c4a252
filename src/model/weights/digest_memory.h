// What files hashed to, from one process to the next: nobody waits twice for
// the hash of a file that stayed as it was.
#ifndef WINNOW_MODEL_WEIGHTS_DIGEST_MEMORY_H_
#define WINNOW_MODEL_WEIGHTS_DIGEST_MEMORY_H_

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/content_hash.h"
#include "base/file.h"

namespace winnow {

// Owns nothing but what it has read of a file of JSON lines, which is the
// user's own and no other's to write. What cannot be read, or is damaged, was
// never remembered; what cannot be written is forgotten. Never an error: it
// costs hashing again. One thread.
class DigestMemory {
 public:
  // An empty path: nothing is remembered.
  explicit DigestMemory(std::filesystem::path file);

  // Where a user's is: winnow/weights.jsonl in $XDG_CACHE_HOME, or in ~/.cache;
  // empty where there is neither.
  static std::filesystem::path UsersFile();

  // What the file hashed to when it had that stamp.
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
