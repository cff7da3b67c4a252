// PassingFolder: forwards all calls to another folder, for tests of slow disks.
#ifndef WINNOW_BASE_PASSING_FOLDER_H_
#define WINNOW_BASE_PASSING_FOLDER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/block_folder.h"

namespace winnow {

class PassingFolder : public BlockFolder {
 public:
  explicit PassingFolder(std::unique_ptr<BlockFolder> real)
      : real_(std::move(real)) {}

  std::string path() const override { return real_->path(); }
  Result<std::string> ReadSmall(std::string_view name) override {
    return real_->ReadSmall(name);
  }
  Status WriteSmall(std::string_view name, std::string_view content) override {
    return real_->WriteSmall(name, content);
  }
  Result<int64_t> num_bytes() const override { return real_->num_bytes(); }
  Status Resize(int64_t num_bytes) override { return real_->Resize(num_bytes); }
  int max_transfers() const override { return real_->max_transfers(); }
  void Submit(std::span<const BlockTransfer> transfers) override {
    real_->Submit(transfers);
  }
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override {
    return real_->Collect(completions, wait);
  }

 private:
  const std::unique_ptr<BlockFolder> real_;
};

}  // namespace winnow

#endif  // WINNOW_BASE_PASSING_FOLDER_H_
