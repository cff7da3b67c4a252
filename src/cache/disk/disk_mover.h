// PieceMover: moves pieces between memory and a folder. Seals each piece that
// it writes, and rejects a piece that is not whole.
#ifndef WINNOW_CACHE_DISK_DISK_MOVER_H_
#define WINNOW_CACHE_DISK_DISK_MOVER_H_

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/block_folder.h"
#include "cache/disk/disk_piece.h"

namespace winnow {

// One piece in transfer. Either source or target is set, piece_bytes long.
struct PieceTransfer {
  uint64_t ticket = 0;  // the caller's name for it
  DiskSlot slot;
  PieceLabel label;  // the label to write, or to expect
  std::span<const std::byte> source = {};
  std::span<std::byte> target = {};
};

struct PieceDone {
  uint64_t ticket = 0;
  // kIo, kResourceExhausted: the disk refused. kCorrupt: another or a damaged
  // piece lies there. After a failed read the target's content is undefined.
  Status status;
  // The piece's share of the time that the queue's thread spent on pieces that
  // ended together; 0 without such a thread.
  double seconds = 0;
};

// Owns the folder and a fixed number of buffers, one for each transfer, so the
// memory is bounded however many transfers wait. A write is sealed in a buffer.
// A read goes straight to its target as far as that consists of blocks, and is
// checked there. Only the rest of the slot passes through a buffer. (Copying
// all of it was slower, above all beside a computing CPU.)
//
// At most half of the buffers are in flight. Transfers that begin together end
// together, and the disk works on others while they are checked. Used by one
// thread at a time.
class PieceMover {
 public:
  // REQUIRES: 0 < num_buffers <= folder->max_transfers(), and max_transfers()
  // is at least two.
  PieceMover(std::unique_ptr<BlockFolder> folder, const DiskFolderId& id,
             const DiskSlotLayout& layout, int num_buffers);
  PieceMover(const PieceMover&) = delete;
  PieceMover& operator=(const PieceMover&) = delete;
  // Waits for transfers in flight. Drops transfers that have not begun.
  ~PieceMover();

  // REQUIRES: source or target lives until the transfer is done or the mover is
  // destroyed.
  void Add(PieceTransfer transfer);
  // Begins as many transfers as there are buffers, and appends ended ones to
  // `done`. With `wait`, waits for at least one if any is left.
  void Pump(bool wait, std::vector<PieceDone>& done);
  bool is_idle() const { return waiting_.empty() && num_lanes_under_way_ == 0; }

 private:
  // A contiguous range on the disk that one transfer moves.
  struct Part {
    std::span<std::byte> bytes = {};
    int64_t num_moved = 0;
  };
  // A buffer, and the transfer that uses it.
  struct Lane {
    std::span<std::byte> buffer;  // [slot_bytes]
    PieceTransfer transfer = {};
    // The part that goes straight to the target, and the part through the
    // buffer.
    std::array<Part, 2> parts = {};
    int num_open_parts = 0;
    int error = 0;  // errno of the first part that failed
  };

  // The bytes of a piece that need no buffer: whole blocks in memory that is
  // aligned to blocks.
  int64_t DirectBytes(const PieceTransfer& transfer) const;
  void Begin(size_t lane, int64_t direct_bytes);
  // Begins as many transfers as may be in flight and have buffers. Submits
  // their reads, and parts added by AddRest, in one call. Submits a write
  // before it seals the next.
  void BeginWaiting();
  // Adds the rest of a part to the next Submit.
  void AddRest(size_t lane, size_t part);
  void Submit();
  // Continues an incomplete part; otherwise marks the lane as landed.
  void Land(const BlockCompletion& completion);
  Status Finish(const Lane& lane) const;
  Error Refused(const Lane& lane) const;

  const std::unique_ptr<BlockFolder> folder_;
  const DiskFolderId id_;
  const DiskSlotLayout layout_;
  const BlockBuffer buffers_;  // [lanes, slot_bytes]
  const int max_lanes_under_way_;
  std::vector<Lane> lanes_;
  std::vector<size_t> free_lanes_;
  std::vector<size_t> landed_;  // not yet checked
  std::deque<PieceTransfer> waiting_;
  // Begun and not yet submitted. All go in one call, so the system may merge
  // parts that are neighbours on the disk. (Restoring a prefix with `generate`
  // from a virtual machine's disk: 1.4 times the rate of one call each, record
  // 2026-11-26-4df6cd5-prefix-in-turn.json.)
  std::vector<BlockTransfer> unsubmitted_;
  int num_lanes_under_way_ = 0;
  int num_parts_under_way_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_MOVER_H_
