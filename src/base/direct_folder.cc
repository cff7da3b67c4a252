#include "base/direct_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace winnow {
namespace {

constexpr char kLockName[] = "lock";
constexpr char kBlocksName[] = "blocks";
constexpr size_t kMaxSmallBytes = 1 << 20;

Error SystemError(std::string_view what, const std::filesystem::path& path,
                  int code) {
  const bool is_full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return MakeError(is_full ? ErrorCode::kResourceExhausted : ErrorCode::kIo,
                   "{}: cannot {}: {}", path.string(), what,
                   std::strerror(code));
}

// Whoever may put a link there would choose what is written over.
Error IsNoFile(const std::filesystem::path& path) {
  return MakeError(ErrorCode::kIo,
                   "{}: must be a regular file, and no link to one",
                   path.string());
}

// Brings a file, or a folder's list of names, to the disk.
Status SyncToDisk(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path, errno);
  const int failed = fsync(fd);
  const int code = errno;
  close(fd);
  if (failed != 0) return SystemError("sync", path, code);
  return Ok{};
}

BlockCompletion TransferNow(int fd, const BlockTransfer& transfer) {
  ssize_t moved = 0;
  do {
    moved = transfer.kind == BlockTransfer::Kind::kRead
                ? pread(fd, transfer.bytes.data(), transfer.bytes.size(),
                        transfer.offset)
                : pwrite(fd, transfer.bytes.data(), transfer.bytes.size(),
                         transfer.offset);
  } while (moved < 0 && errno == EINTR);
  if (moved < 0) return {.tag = transfer.tag, .error = errno};
  return {.tag = transfer.tag, .num_bytes = moved};
}

}  // namespace

Result<std::unique_ptr<DirectFolder>> DirectFolder::Open(
    const std::filesystem::path& path, const DirectFolderOptions& options) {
  CHECK(options.max_transfers > 0, "max_transfers={}", options.max_transfers);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError("make the folder", path, errno);
  }
  std::unique_ptr<DirectFolder> folder(new DirectFolder(path, options));
  RETURN_IF_ERROR(folder->Lock());
  RETURN_IF_ERROR(folder->OpenBlocks());
  if (!options.use_uring) return folder;
  Result<std::unique_ptr<Uring>> uring = Uring::Create(options.max_transfers);
  if (uring.ok()) {
    folder->uring_ = *std::move(uring);
  } else {
    folder->note_ += fmt::format(
        "{}: {}; reading and writing one piece at a time instead, which is "
        "slower",
        path.string(), uring.error().message);
  }
  return folder;
}

DirectFolder::~DirectFolder() {
  uring_.reset();
  if (blocks_fd_ >= 0) close(blocks_fd_);
  if (lock_fd_ >= 0) close(lock_fd_);
}

// A lock of the system's: it ends with the process, however that ends.
Status DirectFolder::Lock() {
  const std::filesystem::path file = path_ / kLockName;
  lock_fd_ =
      open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_fd_ < 0) {
    if (errno == ELOOP) return IsNoFile(file);
    const bool is_read_only =
        errno == EACCES || errno == EPERM || errno == EROFS;
    return is_read_only ? SystemError("write to the folder", path_, errno)
                        : SystemError("open", file, errno);
  }
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return Ok{};
  if (errno != EWOULDBLOCK) return SystemError("lock", file, errno);
  return MakeError(ErrorCode::kIo,
                   "{}: another process keeps its KV there; a folder is used "
                   "by one at a time",
                   path_.string());
}

Status DirectFolder::OpenBlocks() {
  const std::filesystem::path file = path_ / kBlocksName;
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  blocks_fd_ = open(file.c_str(), kFlags | O_DIRECT, 0600);
  if (blocks_fd_ < 0 && errno == EINVAL) {
    blocks_fd_ = open(file.c_str(), kFlags, 0600);
    note_ = fmt::format(
        "{}: the file system has no direct I/O; reading and writing through "
        "the page cache instead, which is slower{}",
        path_.string(), options_.use_uring ? ". " : "");
  }
  if (blocks_fd_ < 0 && errno == ELOOP) return IsNoFile(file);
  if (blocks_fd_ < 0) return SystemError("open", file, errno);
  struct stat info;
  if (fstat(blocks_fd_, &info) != 0) return SystemError("stat", file, errno);
  return S_ISREG(info.st_mode) ? Status(Ok{}) : IsNoFile(file);
}

Result<std::string> DirectFolder::ReadSmall(std::string_view name) {
  return ReadFile(path_ / name, kMaxSmallBytes);
}

Status DirectFolder::WriteSmall(std::string_view name,
                                std::string_view content) {
  RETURN_IF_ERROR(WriteFile(path_ / name, content));
  RETURN_IF_ERROR(SyncToDisk(path_ / name));
  return SyncToDisk(path_);
}

Result<int64_t> DirectFolder::num_bytes() const {
  struct stat info;
  if (fstat(blocks_fd_, &info) == 0) return int64_t{info.st_size};
  return SystemError("stat", path_ / kBlocksName, errno);
}

Status DirectFolder::Resize(int64_t num_bytes) {
  CHECK(num_bytes >= 0 && num_bytes % kBlockBytes == 0, "num_bytes={}",
        num_bytes);
  const std::filesystem::path file = path_ / kBlocksName;
  ASSIGN_OR_RETURN(const int64_t num_bytes_before, this->num_bytes());
  if (num_bytes_before > num_bytes && ftruncate(blocks_fd_, num_bytes) != 0) {
    return SystemError("shorten", file, errno);
  }
  if (num_bytes == 0) return Ok{};
  // Allocates what is not there yet, and lengthens: a write never lacks room.
  // Where the file system cannot promise that, a write without room fails.
  int failed = fallocate(blocks_fd_, 0, 0, num_bytes);
  if (failed != 0 && errno == EOPNOTSUPP) {
    failed = ftruncate(blocks_fd_, num_bytes);
  }
  if (failed == 0) return Ok{};
  const int code = errno;
  // What was there, and is kept, stays; what came is given back.
  if (ftruncate(blocks_fd_, std::min(num_bytes_before, num_bytes)) != 0) {
    return SystemError("shorten", file, errno);
  }
  return SystemError(fmt::format("allocate {} bytes", num_bytes), file, code);
}

void DirectFolder::Submit(std::span<const BlockTransfer> transfers) {
  for (const BlockTransfer& transfer : transfers) {
    CHECK(transfer.offset % kBlockBytes == 0 &&
              transfer.bytes.size() % kBlockBytes == 0,
          "offset={} bytes={}", transfer.offset, transfer.bytes.size());
  }
  if (uring_ != nullptr) return uring_->Submit(blocks_fd_, transfers);
  for (const BlockTransfer& transfer : transfers) {
    ended_.push_back(TransferNow(blocks_fd_, transfer));
  }
}

size_t DirectFolder::Collect(std::span<BlockCompletion> completions,
                             bool wait) {
  if (uring_ != nullptr) return uring_->Collect(completions, wait);
  size_t num_collected = 0;
  while (num_collected < completions.size() && !ended_.empty()) {
    completions[num_collected++] = ended_.front();
    ended_.pop_front();
  }
  return num_collected;
}

}  // namespace winnow
