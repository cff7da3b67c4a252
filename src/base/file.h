// Files: mapped for weights, read whole if they are small.
#ifndef WINNOW_BASE_FILE_H_
#define WINNOW_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace winnow {

// Identifies a file's content. It changes with each write, even if the
// modification time is reset afterwards.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t num_bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // since 1970
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// The stamp of the file to which `path` leads, through links.
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
  // The stamp of the file when it was opened, and the time of opening
  // (nanoseconds since 1970).
  const FileStamp& stamp() const { return stamp_; }
  int64_t opened_ns() const { return opened_ns_; }
  // The stamp of the mapped file now, whatever lies at its path. Linux changes
  // a file's stamp before the first new byte can be read.
  Result<FileStamp> StampNow() const;

 private:
  MappedFile(std::filesystem::path path, int fd) : path_(path), fd_(fd) {}

  std::filesystem::path path_;
  int fd_ = -1;
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
  int64_t opened_ns_ = 0;
};

// Reads a regular file whole. Fails if it is larger than `max_bytes`. Fails
// without waiting if it is a pipe.
Result<std::string> ReadFile(const std::filesystem::path& path,
                             size_t max_bytes);

// Writes a file whole, through a temporary file beside it and a rename. After a
// failure `path` has the old content or no file. A device or a pipe at `path`
// is written directly. A symbolic link stays, and its target is written.
Status WriteFile(const std::filesystem::path& path, std::string_view content);

// Fails if WriteFile would fail before its first byte. Call it before long work
// whose result goes to `path`. Changes nothing at `path`.
Status CheckCanWrite(const std::filesystem::path& path);

}  // namespace winnow

#endif  // WINNOW_BASE_FILE_H_
