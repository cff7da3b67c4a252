#include "base/faulty_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace winnow {

// One process' view of a disk.
class FaultyFolder final : public BlockFolder {
 public:
  FaultyFolder(FaultyDisk& disk, uint64_t generation)
      : disk_(disk), generation_(generation) {}
  ~FaultyFolder() override {
    CHECK(is_dead() || disk_.under_way_.empty(), "under way={}",
          disk_.under_way_.size());
  }

  std::string path() const override { return "faulty"; }
  Result<std::string> ReadSmall(std::string_view name) override;
  Status WriteSmall(std::string_view name, std::string_view content) override;
  Result<int64_t> num_bytes() const override { return disk_.num_bytes(); }
  Status Resize(int64_t num_bytes) override;
  int max_transfers() const override { return 8; }
  void Submit(std::span<const BlockTransfer> transfers) override;
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override;

 private:
  bool is_dead() const { return generation_ != disk_.generation_; }
  BlockCompletion End(const BlockTransfer& transfer);
  BlockCompletion EndRead(const BlockTransfer& transfer);
  BlockCompletion EndWrite(const BlockTransfer& transfer);

  FaultyDisk& disk_;
  const uint64_t generation_;
};

Result<std::string> FaultyFolder::ReadSmall(std::string_view name) {
  if (disk_.Happens(disk_.faults_.small_error)) {
    return MakeError(ErrorCode::kIo, "faulty/{}: cannot read: EIO", name);
  }
  const auto found = disk_.small_files_.find(name);
  if (found == disk_.small_files_.end()) {
    return MakeError(ErrorCode::kNotFound, "faulty/{}: not there", name);
  }
  return found->second;
}

Status FaultyFolder::WriteSmall(std::string_view name,
                                std::string_view content) {
  if (disk_.faults_.is_read_only) {
    return MakeError(ErrorCode::kIo, "faulty/{}: cannot write: EROFS", name);
  }
  const bool fails = disk_.Happens(disk_.faults_.small_error);
  if (!fails || disk_.Happens(0.3)) {
    disk_.small_files_[std::string(name)] = content;
  } else if (disk_.Happens(0.3)) {
    disk_.small_files_[std::string(name)] = "";
  }
  if (!fails) return Ok{};
  return MakeError(ErrorCode::kIo, "faulty/{}: cannot write: EIO", name);
}

Status FaultyFolder::Resize(int64_t num_bytes) {
  if (num_bytes > disk_.num_bytes() &&
      (disk_.faults_.is_read_only || num_bytes > disk_.faults_.max_bytes)) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "faulty/blocks: cannot allocate {} bytes", num_bytes);
  }
  // What is cut off and comes again is zeros, whatever was to land there.
  disk_.Flush();
  disk_.bytes_.resize(static_cast<size_t>(num_bytes));
  disk_.Flush();
  return Ok{};
}

void FaultyFolder::Submit(std::span<const BlockTransfer> transfers) {
  for (const BlockTransfer& transfer : transfers) {
    const int64_t end = transfer.offset + std::ssize(transfer.bytes);
    CHECK(
        transfer.offset % kBlockBytes == 0 && end % kBlockBytes == 0 &&
            reinterpret_cast<uintptr_t>(transfer.bytes.data()) % kBlockBytes ==
                0,
        "offset={} end={}", transfer.offset, end);
    CHECK(end <= disk_.num_bytes(), "end={} bytes={}", end, disk_.num_bytes());
    if (is_dead()) {
      disk_.dead_tags_.push_back(transfer.tag);
      continue;
    }
    disk_.under_way_.push_back(transfer);
    CHECK(std::ssize(disk_.under_way_) <= max_transfers(), "under way={}",
          disk_.under_way_.size());
  }
}

size_t FaultyFolder::Collect(std::span<BlockCompletion> completions,
                             bool wait) {
  size_t num_collected = 0;
  if (is_dead()) {
    std::vector<uint64_t>& tags = disk_.dead_tags_;
    while (num_collected < completions.size() && !tags.empty()) {
      completions[num_collected++] = {.tag = tags.back(), .error = EIO};
      tags.pop_back();
    }
    return num_collected;
  }
  std::vector<BlockTransfer>& under_way = disk_.under_way_;
  while (num_collected < completions.size() && !under_way.empty()) {
    if ((!wait || num_collected > 0) && disk_.Happens(0.4)) break;
    const size_t next = static_cast<size_t>(disk_.Below(std::ssize(under_way)));
    const BlockTransfer transfer = under_way[next];
    under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(next));
    completions[num_collected++] = End(transfer);
  }
  return num_collected;
}

BlockCompletion FaultyFolder::End(const BlockTransfer& transfer) {
  return transfer.kind == BlockTransfer::Kind::kRead ? EndRead(transfer)
                                                     : EndWrite(transfer);
}

BlockCompletion FaultyFolder::EndRead(const BlockTransfer& transfer) {
  if (disk_.Happens(disk_.faults_.unreachable_memory)) {
    return {.tag = transfer.tag, .error = EFAULT};
  }
  int64_t num_bytes = std::ssize(transfer.bytes);
  if (disk_.Happens(disk_.faults_.short_transfer)) {
    num_bytes = disk_.Below(num_bytes);
  }
  std::memcpy(transfer.bytes.data(), disk_.bytes_.data() + transfer.offset,
              static_cast<size_t>(num_bytes));
  if (disk_.Happens(disk_.faults_.read_error)) {
    return {.tag = transfer.tag, .error = EIO};
  }
  return {.tag = transfer.tag, .num_bytes = num_bytes};
}

BlockCompletion FaultyFolder::EndWrite(const BlockTransfer& transfer) {
  if (disk_.faults_.is_read_only) return {.tag = transfer.tag, .error = EROFS};
  if (disk_.faults_.is_full) return {.tag = transfer.tag, .error = ENOSPC};
  int64_t num_bytes = std::ssize(transfer.bytes);
  const bool fails = disk_.Happens(disk_.faults_.write_error);
  if (fails || disk_.Happens(disk_.faults_.short_transfer)) {
    num_bytes = disk_.Below(num_bytes);
  }
  disk_.Land(transfer.offset,
             transfer.bytes.first(static_cast<size_t>(num_bytes)));
  if (fails) return {.tag = transfer.tag, .error = EIO};
  return {.tag = transfer.tag, .num_bytes = num_bytes};
}

std::unique_ptr<BlockFolder> FaultyDisk::Open() {
  CHECK(under_way_.empty() && dead_tags_.empty(), "under way={} dead={}",
        under_way_.size(), dead_tags_.size());
  return std::make_unique<FaultyFolder>(*this, ++generation_);
}

bool FaultyDisk::Happens(double chance) {
  return std::uniform_real_distribution<>(0, 1)(random_) < chance;
}

int64_t FaultyDisk::Below(int64_t bound) {
  return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
}

void FaultyDisk::Land(int64_t offset, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin() + offset);
  log_.push_back({offset, {bytes.begin(), bytes.end()}});
}

void FaultyDisk::LandTorn(const Write& write, std::vector<std::byte>& image) {
  if (Happens(0.2)) return;
  int64_t begin = 0, end = std::ssize(write.bytes);
  if (Happens(0.4)) {
    begin = Happens(0.5) ? 0 : Below(end + 1);
    end = begin + Below(end - begin + 1);
  }
  // What lies beyond the file was cut off since.
  end = std::min(end, std::ssize(image) - write.offset);
  if (begin >= end) return;
  std::copy(write.bytes.begin() + begin, write.bytes.begin() + end,
            image.begin() + write.offset + begin);
}

void FaultyDisk::KillProcess() {
  for (const BlockTransfer& transfer : under_way_) {
    dead_tags_.push_back(transfer.tag);
    if (transfer.kind == BlockTransfer::Kind::kRead) continue;
    const Write write = {transfer.offset,
                         {transfer.bytes.begin(), transfer.bytes.end()}};
    LandTorn(write, bytes_);
    log_.push_back(write);
  }
  under_way_.clear();
  ++generation_;
}

void FaultyDisk::LosePower() {
  CHECK(under_way_.empty(), "under way={}", under_way_.size());
  std::shuffle(log_.begin(), log_.end(), random_);
  bytes_ = flushed_;
  for (const Write& write : log_) LandTorn(write, bytes_);
  Flush();
}

void FaultyDisk::Flush() {
  flushed_ = bytes_;
  log_.clear();
}

void FaultyDisk::FlipBit() {
  if (bytes_.empty()) return;
  const auto at = static_cast<size_t>(Below(num_bytes()));
  const auto bit = std::byte{1} << static_cast<int>(Below(8));
  bytes_[at] ^= bit;
  flushed_[at] ^= bit;
}

}  // namespace winnow
