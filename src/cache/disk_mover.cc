#include "cache/disk_mover.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace winnow {

PieceMover::PieceMover(std::unique_ptr<BlockFolder> folder,
                       const DiskFolderId& id, const DiskSlotLayout& layout,
                       int num_buffers)
    : folder_(std::move(folder)), id_(id), layout_(layout) {
  CHECK(num_buffers > 0 && num_buffers <= folder_->max_transfers(),
        "num_buffers={} max_transfers={}", num_buffers,
        folder_->max_transfers());
  for (int i = 0; i < num_buffers; ++i) {
    lanes_.push_back(
        {.bytes = AllocateBlocks(layout_.slot_bytes), .transfer = {}});
    free_lanes_.push_back(static_cast<size_t>(i));
  }
}

PieceMover::~PieceMover() {
  std::array<BlockCompletion, 16> completions;
  // What ends short is not taken up again.
  while (num_under_way_ > 0) {
    num_under_way_ -= static_cast<int>(folder_->Collect(completions, true));
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

void PieceMover::BeginWaiting() {
  while (!waiting_.empty() && !free_lanes_.empty()) {
    const size_t lane = free_lanes_.back();
    free_lanes_.pop_back();
    lanes_[lane].transfer = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(lane);
  }
}

void PieceMover::Pump(bool wait, std::vector<PieceDone>& done) {
  bool has_ended = false;
  do {
    BeginWaiting();
    std::array<BlockCompletion, 16> completions;
    const size_t num_collected = folder_->Collect(completions, wait);
    num_under_way_ -= static_cast<int>(num_collected);
    for (size_t i = 0; i < num_collected; ++i) {
      has_ended |= Land(completions[i], done);
      // Transfers end together where they began together: the disk is not to
      // wait until all of them have been checked and copied.
      BeginWaiting();
    }
  } while (wait && !has_ended && !is_idle());
}

std::span<std::byte> PieceMover::SlotBytes(const Lane& lane) const {
  return {lane.bytes.get(), static_cast<size_t>(layout_.slot_bytes)};
}

void PieceMover::Begin(size_t lane) {
  Lane& begun = lanes_[lane];
  begun.num_moved = 0;
  if (!begun.transfer.source.empty()) {
    std::ranges::copy(begun.transfer.source, begun.bytes.get());
    SealSlot(layout_, id_, begun.transfer.label, SlotBytes(begun));
  }
  SubmitRest(lane);
}

void PieceMover::SubmitRest(size_t lane) {
  const Lane& moved = lanes_[lane];
  const bool is_write = !moved.transfer.source.empty();
  const BlockTransfer rest = {
      .tag = lane,
      .kind =
          is_write ? BlockTransfer::Kind::kWrite : BlockTransfer::Kind::kRead,
      .offset = layout_.Offset(moved.transfer.slot) + moved.num_moved,
      .bytes = SlotBytes(moved).subspan(static_cast<size_t>(moved.num_moved))};
  folder_->Submit({&rest, 1});
  ++num_under_way_;
}

bool PieceMover::Land(const BlockCompletion& completion,
                      std::vector<PieceDone>& done) {
  Lane& lane = lanes_[completion.tag];
  // The next transfer begins at a block, so a part of one is moved again.
  const int64_t num_bytes = completion.num_bytes / kBlockBytes * kBlockBytes;
  lane.num_moved += num_bytes;
  const bool is_whole = lane.num_moved == layout_.slot_bytes;
  if (completion.error == 0 && num_bytes > 0 && !is_whole) {
    SubmitRest(completion.tag);
    return false;
  }
  const int error = is_whole                ? 0
                    : completion.error != 0 ? completion.error
                                            : EIO;
  done.push_back(
      {lane.transfer.ticket, error == 0 ? Finish(lane) : Refused(lane, error)});
  free_lanes_.push_back(completion.tag);
  return true;
}

Status PieceMover::Finish(const Lane& lane) const {
  if (!lane.transfer.source.empty()) return Ok{};
  if (!IsWhole(layout_, id_, lane.transfer.label, SlotBytes(lane))) {
    return MakeError(ErrorCode::kCorrupt,
                     "{}: slot {} does not hold the piece that was written "
                     "there, or not all of it",
                     folder_->path(), lane.transfer.slot.value());
  }
  std::copy_n(lane.bytes.get(), layout_.piece_bytes,
              lane.transfer.target.begin());
  return Ok{};
}

Error PieceMover::Refused(const Lane& lane, int error) const {
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return MakeError(is_full ? ErrorCode::kResourceExhausted : ErrorCode::kIo,
                   "{}: cannot {} slot {}: {}", folder_->path(),
                   lane.transfer.source.empty() ? "read" : "write",
                   lane.transfer.slot.value(), std::strerror(error));
}

}  // namespace winnow
