#include "cache/disk/disk_mover.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace winnow {

PieceMover::PieceMover(std::unique_ptr<BlockFolder> folder,
                       const DiskFolderId& id, const DiskSlotLayout& layout,
                       int num_buffers)
    : folder_(std::move(folder)),
      id_(id),
      layout_(layout),
      buffers_(AllocateBlocks(num_buffers * layout.slot_bytes)),
      max_lanes_under_way_(
          std::min((num_buffers + 1) / 2, folder_->max_transfers() / 2)) {
  CHECK(max_lanes_under_way_ > 0 && num_buffers <= folder_->max_transfers(),
        "num_buffers={} max_transfers={}", num_buffers,
        folder_->max_transfers());
  unsubmitted_.reserve(2 * static_cast<size_t>(max_lanes_under_way_));
  for (int i = 0; i < num_buffers; ++i) {
    lanes_.push_back({.buffer = {buffers_.get() + i * layout_.slot_bytes,
                                 static_cast<size_t>(layout_.slot_bytes)}});
    free_lanes_.push_back(static_cast<size_t>(i));
  }
}

PieceMover::~PieceMover() {
  std::array<BlockCompletion, 16> completions;
  // What ends short is not taken up again.
  while (num_parts_under_way_ > 0) {
    num_parts_under_way_ -=
        static_cast<int>(folder_->Collect(completions, true));
  }
}

void PieceMover::Add(PieceTransfer transfer) {
  CHECK(transfer.source.empty() != transfer.target.empty() &&
            std::ssize(transfer.source) + std::ssize(transfer.target) ==
                layout_.piece_bytes,
        "source={} target={} piece_bytes={}", transfer.source.size(),
        transfer.target.size(), layout_.piece_bytes);
  waiting_.push_back(std::move(transfer));
}

int64_t PieceMover::DirectBytes(const PieceTransfer& transfer) const {
  const auto address = reinterpret_cast<uintptr_t>(transfer.target.data());
  if (address % kBlockBytes != 0) return 0;
  return std::ssize(transfer.target) / kBlockBytes * kBlockBytes;
}

void PieceMover::BeginWaiting() {
  while (!waiting_.empty() && !free_lanes_.empty() &&
         num_lanes_under_way_ < max_lanes_under_way_) {
    const size_t lane = free_lanes_.back();
    free_lanes_.pop_back();
    PieceTransfer& transfer = lanes_[lane].transfer;
    transfer = std::move(waiting_.front());
    waiting_.pop_front();
    if (!transfer.source.empty()) {
      std::ranges::copy(transfer.source, lanes_[lane].buffer.begin());
      SealSlot(layout_, id_, transfer.label, lanes_[lane].buffer);
    }
    ++num_lanes_under_way_;
    Begin(lane, DirectBytes(transfer));
    if (!transfer.source.empty()) Submit();
  }
  Submit();
}

void PieceMover::Submit() {
  if (unsubmitted_.empty()) return;
  num_parts_under_way_ += static_cast<int>(unsubmitted_.size());
  folder_->Submit(unsubmitted_);
  unsubmitted_.clear();
}

void PieceMover::Pump(bool wait, std::vector<PieceDone>& done) {
  const size_t num_before = done.size();
  do {
    BeginWaiting();
    std::array<BlockCompletion, 16> completions;
    const size_t num_collected = folder_->Collect(completions, wait);
    num_parts_under_way_ -= static_cast<int>(num_collected);
    for (size_t i = 0; i < num_collected; ++i) Land(completions[i]);
    BeginWaiting();
    for (const size_t lane : landed_) {
      done.push_back({.ticket = lanes_[lane].transfer.ticket,
                      .status = Finish(lanes_[lane])});
      free_lanes_.push_back(lane);
      BeginWaiting();
    }
    landed_.clear();
  } while (wait && done.size() == num_before && !is_idle());
}

void PieceMover::Begin(size_t lane, int64_t direct_bytes) {
  const auto direct = static_cast<size_t>(direct_bytes);
  Lane& begun = lanes_[lane];
  begun.error = 0;
  begun.num_open_parts = 0;
  begun.parts = {
      Part{.bytes = begun.transfer.target.first(direct)},
      Part{.bytes = begun.buffer.first(begun.buffer.size() - direct)}};
  for (size_t part = 0; part < begun.parts.size(); ++part) {
    if (begun.parts[part].bytes.empty()) continue;
    ++begun.num_open_parts;
    AddRest(lane, part);
  }
}

void PieceMover::AddRest(size_t lane, size_t part) {
  const Lane& moved = lanes_[lane];
  const Part& rest = moved.parts[part];
  const int64_t before = part == 0 ? 0 : std::ssize(moved.parts[0].bytes);
  unsubmitted_.push_back(
      {.tag = lane * moved.parts.size() + part,
       .kind = moved.transfer.source.empty() ? BlockTransfer::Kind::kRead
                                             : BlockTransfer::Kind::kWrite,
       .offset = layout_.Offset(moved.transfer.slot) + before + rest.num_moved,
       .bytes = rest.bytes.subspan(static_cast<size_t>(rest.num_moved))});
}

void PieceMover::Land(const BlockCompletion& completion) {
  const size_t index = completion.tag / lanes_[0].parts.size();
  Lane& lane = lanes_[index];
  const size_t number = completion.tag % lane.parts.size();
  Part& part = lane.parts[number];
  // The next transfer begins at a block, so a part of one is moved again.
  const int64_t num_bytes = completion.num_bytes / kBlockBytes * kBlockBytes;
  part.num_moved += num_bytes;
  const bool is_whole = part.num_moved == std::ssize(part.bytes);
  if (!is_whole && completion.error == 0 && num_bytes > 0) {
    return AddRest(index, number);
  }
  if (!is_whole && lane.error == 0) {
    lane.error = completion.error != 0 ? completion.error : EIO;
  }
  if (--lane.num_open_parts > 0) return;
  // Not all memory can be read into directly.
  if (lane.error == EFAULT && !lane.parts[0].bytes.empty()) {
    return Begin(index, 0);
  }
  --num_lanes_under_way_;
  landed_.push_back(index);
}

Status PieceMover::Finish(const Lane& lane) const {
  if (lane.error != 0) return Refused(lane);
  if (!lane.transfer.source.empty()) return Ok{};
  const auto& [direct, buffered] = lane.parts;
  if (!IsWhole(layout_, id_, lane.transfer.label, direct.bytes,
               buffered.bytes)) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: slot {} does not hold the piece that was written "
                     "there, or not all of it",
                     folder_->path(), lane.transfer.slot.value());
  }
  const std::span<std::byte> rest =
      lane.transfer.target.subspan(direct.bytes.size());
  std::copy_n(buffered.bytes.begin(), rest.size(), rest.begin());
  return Ok{};
}

Error PieceMover::Refused(const Lane& lane) const {
  const bool is_full = lane.error == ENOSPC || lane.error == EDQUOT;
  return MakeError(is_full ? ErrorCode::kResourceExhausted : ErrorCode::kIo,
                   "{}: cannot {} slot {}: {}", folder_->path(),
                   lane.transfer.source.empty() ? "read" : "write",
                   lane.transfer.slot.value(), std::strerror(lane.error));
}

}  // namespace winnow
