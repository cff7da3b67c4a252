#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/lost_mapping.h"

namespace winnow {
namespace {

Error SystemError(std::string_view what, const std::filesystem::path& path) {
  const int code = errno;
  return MakeError(code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                   "{}: cannot {}: {}", path.string(), what,
                   std::strerror(code));
}

// An open descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  // The caller's from now on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Opens without waiting for a pipe's other end, so that a pipe can be refused.
int OpenToRead(const std::filesystem::path& path) {
  return open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileStamp StampOf(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .num_bytes = info.st_size,
          .modified_ns = Nanoseconds(info.st_mtim),
          .changed_ns = Nanoseconds(info.st_ctim)};
}

// Returns the stamp of the regular file behind `fd`.
Result<FileStamp> RegularFileStamp(int fd, const std::filesystem::path& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError("stat", path);
  if (!S_ISREG(info.st_mode)) {
    return MakeError(ErrorCode::kIo, "{}: not a regular file", path.string());
  }
  return StampOf(info);
}

Status WriteAll(int fd, std::string_view content,
                const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path);
    content.remove_prefix(static_cast<size_t>(written));
  }
  return Ok{};
}

// Creates `temporary` and writes it whole, or leaves none. Errors name the
// file that it is to become.
Status WriteNewFile(const std::filesystem::path& temporary,
                    std::string_view content,
                    const std::filesystem::path& path) {
  const Descriptor file(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return SystemError("create", path);
  const Status written = WriteAll(file.get(), content, path);
  if (!written.ok()) unlink(temporary.c_str());
  return written;
}

// Something that is there and no regular file.
bool IsSpecial(const std::filesystem::path& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

// Where symbolic links lead, whether or not anything is there yet.
std::filesystem::path LinkTarget(std::filesystem::path path) {
  constexpr int kMaxLinks = 40;  // as Linux
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    const auto next = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / next;
  }
  return path;
}

std::filesystem::path TemporaryBeside(std::filesystem::path path) {
  path += fmt::format(".{}.partial", getpid());
  return path;
}

}  // namespace

Result<FileStamp> ReadStamp(const std::filesystem::path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return SystemError("stat", path);
  return StampOf(info);
}

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  Descriptor file(OpenToRead(path));
  if (file.get() < 0) return SystemError("open", path);
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  ASSIGN_OR_RETURN(const FileStamp stamp, RegularFileStamp(file.get(), path));
  std::span<const std::byte> bytes;
  if (stamp.num_bytes > 0) {
    const auto num_bytes = static_cast<size_t>(stamp.num_bytes);
    void* address =
        mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED) return SystemError("map", path);
    bytes = {static_cast<const std::byte*>(address), num_bytes};
    NameMapping(bytes, path);
  }
  MappedFile mapped(path, file.Release());
  mapped.bytes_ = bytes;
  mapped.stamp_ = stamp;
  mapped.opened_ns_ = Nanoseconds(now);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      stamp_(other.stamp_),
      opened_ns_(other.opened_ns_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(stamp_, other.stamp_);
  std::swap(opened_ns_, other.opened_ns_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ForgetMapping(bytes_);
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  if (fd_ >= 0) close(fd_);
}

Result<FileStamp> MappedFile::StampNow() const {
  return RegularFileStamp(fd_, path_);
}

Result<std::string> ReadFile(const std::filesystem::path& path,
                             size_t max_bytes) {
  const Descriptor file(OpenToRead(path));
  if (file.get() < 0) return SystemError("open", path);
  ASSIGN_OR_RETURN(const FileStamp stamp, RegularFileStamp(file.get(), path));
  const auto num_bytes = static_cast<size_t>(stamp.num_bytes);
  if (num_bytes > max_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: file must be at most {} bytes, is {}", path.string(),
                     max_bytes, num_bytes);
  }
  std::string content(num_bytes, '\0');
  size_t filled = 0;
  while (filled < num_bytes) {
    const ssize_t n =
        read(file.get(), content.data() + filled, num_bytes - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("read", path);
    if (n == 0) break;  // The file shrank meanwhile.
    filled += static_cast<size_t>(n);
  }
  content.resize(filled);
  return content;
}

Status WriteFile(const std::filesystem::path& path, std::string_view content) {
  if (IsSpecial(path)) {
    const Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.get() < 0) return SystemError("open", path);
    return WriteAll(file.get(), content, path);
  }
  const std::filesystem::path target = LinkTarget(path);
  const std::filesystem::path temporary = TemporaryBeside(target);
  RETURN_IF_ERROR(WriteNewFile(temporary, content, path));
  if (rename(temporary.c_str(), target.c_str()) != 0) {
    const Error error = SystemError("rename", path);
    unlink(temporary.c_str());
    return error;
  }
  return Ok{};
}

Status CheckCanWrite(const std::filesystem::path& path) {
  if (IsSpecial(path)) {
    if (std::filesystem::is_directory(path)) {
      return MakeError(ErrorCode::kIo, "{}: cannot write: is a folder",
                       path.string());
    }
    if (access(path.c_str(), W_OK) != 0) return SystemError("write", path);
    return Ok{};
  }
  const std::filesystem::path temporary = TemporaryBeside(LinkTarget(path));
  RETURN_IF_ERROR(WriteNewFile(temporary, "", path));
  unlink(temporary.c_str());
  return Ok{};
}

}  // namespace winnow
