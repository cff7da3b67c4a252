// DirectFolder: a BlockFolder on a real disk that bypasses the page cache.
#ifndef WINNOW_BASE_DIRECT_FOLDER_H_
#define WINNOW_BASE_DIRECT_FOLDER_H_

#include <deque>
#include <filesystem>
#include <memory>
#include <string>

#include "base/block_folder.h"
#include "base/uring.h"

namespace winnow {

struct DirectFolderOptions {
  int max_transfers = 64;
  // False: transfers run one by one inside Submit, as if the kernel refused
  // io_uring. For tests and comparisons.
  bool use_uring = true;
};

// Owns the folder's lock and its open file. Creates a missing folder for this
// user alone, because its content was said to a model.
class DirectFolder final : public BlockFolder {
 public:
  // Fails if the folder cannot be created or written, or if its files are links
  // or not regular. Fails if another process, or another object of this one,
  // has it open. Works more slowly without features that the kernel or the file
  // system lacks; note() then names them.
  static Result<std::unique_ptr<DirectFolder>> Open(
      const std::filesystem::path& path, const DirectFolderOptions& options);
  DirectFolder(const DirectFolder&) = delete;
  DirectFolder& operator=(const DirectFolder&) = delete;
  ~DirectFolder() override;

  // A line for the user if transfers are slower than they could be; or "".
  const std::string& note() const { return note_; }

  std::string path() const override { return path_.string(); }
  Result<std::string> ReadSmall(std::string_view name) override;
  Status WriteSmall(std::string_view name, std::string_view content) override;
  Result<int64_t> num_bytes() const override;
  Status Resize(int64_t num_bytes) override;
  int max_transfers() const override { return options_.max_transfers; }
  void Submit(std::span<const BlockTransfer> transfers) override;
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override;

 private:
  DirectFolder(std::filesystem::path path, const DirectFolderOptions& options)
      : path_(std::move(path)), options_(options) {}
  Status Lock();
  Status OpenBlocks();

  const std::filesystem::path path_;
  const DirectFolderOptions options_;
  int lock_fd_ = -1;
  int blocks_fd_ = -1;
  std::unique_ptr<Uring> uring_;       // null: transfers end within Submit
  std::deque<BlockCompletion> ended_;  // without a ring
  std::string note_;
};

}  // namespace winnow

#endif  // WINNOW_BASE_DIRECT_FOLDER_H_
