#include "cache/disk/disk_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/size_text.h"
#include "cache/disk/disk_scan.h"

namespace winnow {

Result<int64_t> NumDiskSlots(std::string_view what, int64_t piece_bytes,
                             int64_t max_bytes) {
  const int64_t slot_bytes = DiskSlotLayout(piece_bytes).slot_bytes;
  const int64_t num_slots = max_bytes / slot_bytes;
  if (num_slots >= 1 && num_slots < int64_t{0xffffffff}) return num_slots;
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be at least {}, a page of KV and its trailer, and "
                   "fewer than 2^32 of them, is {}",
                   what, FormatBytes(slot_bytes), FormatBytes(max_bytes));
}

Result<std::unique_ptr<DiskStore>> DiskStore::Open(
    std::unique_ptr<BlockFolder> folder, const DiskStoreOptions& options) {
  const DiskSlotLayout layout(options.header.piece_bytes);
  ASSIGN_OR_RETURN(const int64_t num_slots,
                   NumDiskSlots(folder->path() + ": the disk's size",
                                layout.piece_bytes, options.max_bytes));
  ASSIGN_OR_RETURN(const DiskFolderId id, OpenHeader(*folder, options.header));
  RETURN_IF_ERROR(folder->Resize(num_slots * layout.slot_bytes));
  std::unique_ptr<DiskStore> store(new DiskStore(layout, num_slots));
  store->index_.Restore(ScanTrailers(*folder, id, layout, num_slots));
  const auto num_buffers = static_cast<int>(std::clamp<int64_t>(
      options.staging_bytes / layout.slot_bytes, 1, folder->max_transfers()));
  store->queue_ = std::make_unique<PieceQueue>(
      std::make_unique<PieceMover>(std::move(folder), id, layout, num_buffers),
      options.has_own_thread);
  return store;
}

std::vector<DiskTicket> DiskStore::Read(
    std::span<const DiskPlace> found,
    std::span<const std::span<std::byte>> targets) {
  CHECK(found.size() == targets.size(), "found={} targets={}", found.size(),
        targets.size());
  std::vector<DiskTicket> tickets;
  std::vector<PieceTransfer> transfers;
  for (size_t page = 0; page < found.size(); ++page) {
    const uint64_t ticket = next_ticket_++;
    tickets.push_back({page, ticket});
    const DiskSlot slot = found[page].slot;
    if (!index_.Pin(found[page])) {
      refused_.push_back(
          {.ticket = ticket,
           .status =
               MakeError(ErrorCode::kNotFound,
                         "slot {} was given to another piece", slot.value())});
      continue;
    }
    open_[ticket] = {.slot = slot, .is_write = false};
    transfers.push_back({.ticket = ticket,
                         .slot = slot,
                         .label = index_.LabelOf(slot),
                         .target = targets[page]});
  }
  queue_->Submit(std::move(transfers));
  return tickets;
}

std::vector<DiskTicket> DiskStore::Write(
    const PrefixPath& path, std::span<const PageKind> kinds, size_t first_page,
    std::span<const std::span<const std::byte>> sources) {
  CHECK(kinds.size() == first_page + sources.size(),
        "kinds={} first_page={} sources={}", kinds.size(), first_page,
        sources.size());
  if (path.root.size() > kMaxDiskRootBytes) return {};
  std::vector<DiskTicket> tickets;
  std::vector<PieceTransfer> transfers;
  for (DiskPlacement& placed : index_.Enter(path, kinds, first_page)) {
    const uint64_t ticket = next_ticket_++;
    tickets.push_back({placed.page, ticket});
    open_[ticket] = {.slot = placed.slot, .is_write = true};
    ++num_writes_;
    transfers.push_back({.ticket = ticket,
                         .slot = placed.slot,
                         .label = std::move(placed.label),
                         .source = sources[placed.page - first_page]});
  }
  queue_->Submit(std::move(transfers));
  return tickets;
}

std::vector<PieceDone> DiskStore::Take(bool wait) {
  // What was refused is there to be taken: no need to wait for more.
  std::vector<PieceDone> taken = queue_->Take(wait && refused_.empty());
  for (const PieceDone& done : taken) Land(done);
  std::ranges::move(refused_, std::back_inserter(taken));
  refused_.clear();
  return taken;
}

void DiskStore::Land(const PieceDone& done) {
  const auto found = open_.find(done.ticket);
  CHECK(found != open_.end(), "ticket={}", done.ticket);
  const OpenTransfer transfer = found->second;
  open_.erase(found);
  if (transfer.is_write) {
    --num_writes_;
    ++(done.status.ok() ? counts_.num_written : counts_.num_failed_writes);
  } else {
    ++(done.status.ok() ? counts_.num_read : counts_.num_failed_reads);
  }
  if (done.status.ok() && !transfer.is_write) {
    counts_.read_seconds += done.seconds;
  }
  if (!done.status.ok()) {
    counts_.last_failure = done.status.error().message;
    if (counts_.first_failure.empty()) {
      counts_.first_failure = counts_.last_failure;
    }
  }
  if (done.status.ok() && transfer.is_write) {
    return index_.Written(transfer.slot);
  }
  if (!done.status.ok()) index_.Drop(transfer.slot);
  index_.Unpin(transfer.slot);
}

}  // namespace winnow
