// Moves pieces between memory and a folder: seals what goes out, and lets
// nothing in that is not whole.
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

// One piece on its way. Of source and target one is set, piece_bytes long.
struct PieceTransfer {
  uint64_t ticket = 0;  // the caller's name for it
  DiskSlot slot;
  PieceLabel label;  // what is written, or must be there
  std::span<const std::byte> source = {};
  std::span<std::byte> target = {};
};

struct PieceDone {
  uint64_t ticket = 0;
  // kIo, kResourceExhausted: the disk refused. kCorrupt: another piece, or a
  // damaged one, is there. After a failed read the target holds anything.
  Status status;
  // Its share of the time that the queue's thread spent on pieces that ended
  // together; 0 without one.
  double seconds = 0;
};

// Owns the folder and a fixed number of buffers, one a transfer: the memory is
// bounded, whatever waits. What is written is sealed in one. What is read goes
// straight to its target as far as that consists of blocks, and is checked
// there; only the rest of the slot passes through a buffer. (A copy of all of
// it was slower, above all where others compute.)
//
// Half of the buffers, at most, are under way: transfers end together where
// they began together, and the disk has others while those are checked.
// Used by one thread at a time.
class PieceMover {
 public:
  // REQUIRES: 0 < num_buffers <= folder->max_transfers(), which are two or
  // more.
  PieceMover(std::unique_ptr<BlockFolder> folder, const DiskFolderId& id,
             const DiskSlotLayout& layout, int num_buffers);
  PieceMover(const PieceMover&) = delete;
  PieceMover& operator=(const PieceMover&) = delete;
  // Waits for what is under way; what has not begun never will.
  ~PieceMover();

  // REQUIRES: source or target lives until the transfer is done, or the mover
  // has gone.
  void Add(PieceTransfer transfer);
  // Begins what there are buffers for, and adds what has ended to `done`: with
  // `wait`, at least one if any is left.
  void Pump(bool wait, std::vector<PieceDone>& done);
  bool is_idle() const { return waiting_.empty() && num_lanes_under_way_ == 0; }

 private:
  // What is moved in one go, behind the part before it on the disk.
  struct Part {
    std::span<std::byte> bytes = {};
    int64_t num_moved = 0;
  };
  // A buffer, and what passes through it.
  struct Lane {
    std::span<std::byte> buffer;  // [slot_bytes]
    PieceTransfer transfer = {};
    // Straight into the target, and through the buffer.
    std::array<Part, 2> parts = {};
    int num_open_parts = 0;
    int error = 0;  // of errno: the first that a part ended with
  };

  // How much of a piece needs no buffer: whole blocks, in memory that begins
  // at a multiple of them.
  int64_t DirectBytes(const PieceTransfer& transfer) const;
  void Begin(size_t lane, int64_t direct_bytes);
  // As many as may be under way, and there are buffers for. Submits what they
  // read and what AddRest has added at once; a write before the next is sealed.
  void BeginWaiting();
  // What is left of a part goes to the disk with the next Submit.
  void AddRest(size_t lane, size_t part);
  void Submit();
  // Goes on with what has not ended; else the lane has landed.
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
  // Begun, and not yet submitted. All go at once, so that the system may make
  // one request of parts that are neighbours on the disk. (A prefix restored by
  // `generate` from a virtual machine's disk: 1.4 times the rate of a call
  // each, record 2026-11-26-4df6cd5-prefix-in-turn.json.)
  std::vector<BlockTransfer> unsubmitted_;
  int num_lanes_under_way_ = 0;
  int num_parts_under_way_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_MOVER_H_
