// Files: mapped for weights, read whole for what is small.
#ifndef WINNOW_BASE_FILE_H_
#define WINNOW_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace winnow {

// By what a file is known to be as it was: it changes with each write, whatever
// is done to the time of the last one afterwards.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t num_bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // since 1970
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Of what `path` leads to.
Result<FileStamp> ReadStamp(const std::filesystem::path& path);

// A whole file mapped read-only. Owns the mapping; move-only. bytes() stays at
// one address for the object's life, so Views into it may outlive moves.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  // As it was when it was opened, and when that was (nanoseconds since 1970).
  const FileStamp& stamp() const { return stamp_; }
  int64_t opened_ns() const { return opened_ns_; }
  // As the mapped file is now, whatever stands at its path. Linux gives a file
  // its new stamp before the first new byte can be read.
  Result<FileStamp> StampNow() const;

 private:
  MappedFile(std::filesystem::path path, int fd) : path_(path), fd_(fd) {}

  std::filesystem::path path_;
  int fd_ = -1;
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
  int64_t opened_ns_ = 0;
};

// Reads a regular file whole. Fails where it is larger than `max_bytes`, and
// without waiting where it is a pipe.
Result<std::string> ReadFile(const std::filesystem::path& path,
                             size_t max_bytes);

// Writes a file whole, through a temporary file beside it and a rename: after
// a failure the old content, or no file, stands at `path`. What stands there
// and is no regular file (a device, a pipe) is written to as it is; a symbolic
// link stays, and what it leads to is written.
Status WriteFile(const std::filesystem::path& path, std::string_view content);

// Fails where WriteFile would before its first byte: before long work whose
// result is to go there. Changes nothing at `path`.
Status CheckCanWrite(const std::filesystem::path& path);

}  // namespace winnow

#endif  // WINNOW_BASE_FILE_H_
