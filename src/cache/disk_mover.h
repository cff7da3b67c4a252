// Moves pieces between memory and a folder: seals what goes out, and lets
// nothing in that is not whole.
#ifndef WINNOW_CACHE_DISK_MOVER_H_
#define WINNOW_CACHE_DISK_MOVER_H_

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/block_folder.h"
#include "cache/disk_piece.h"

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
  // damaged one, is there. After a failed read the target is as it was.
  Status status;
};

// Owns the folder and a fixed number of buffers, one a transfer under way: the
// memory is bounded, whatever waits. Pieces pass through them, since direct I/O
// asks for aligned memory, and since no target is touched before its piece has
// been checked. Used by one thread at a time.
class PieceMover {
 public:
  PieceMover(std::unique_ptr<BlockFolder> folder, const DiskFolderId& id,
             const DiskSlotLayout& layout, int num_buffers);
  PieceMover(const PieceMover&) = delete;
  PieceMover& operator=(const PieceMover&) = delete;
  // Waits for what is under way; what has not begun never will.
  ~PieceMover();

  // REQUIRES: source or target lives until the transfer is done.
  void Add(PieceTransfer transfer);
  // Begins what there are buffers for, and adds what has ended to `done`: with
  // `wait`, at least one if any is left.
  void Pump(bool wait, std::vector<PieceDone>& done);
  bool is_idle() const { return waiting_.empty() && num_under_way_ == 0; }

 private:
  // A buffer, and what passes through it.
  struct Lane {
    BlockBuffer bytes;
    PieceTransfer transfer;
    int64_t num_moved = 0;
  };

  std::span<std::byte> SlotBytes(const Lane& lane) const;
  void Begin(size_t lane);
  // What there are buffers for.
  void BeginWaiting();
  void SubmitRest(size_t lane);
  // True where the transfer has ended, and then says how.
  bool Land(const BlockCompletion& completion, std::vector<PieceDone>& done);
  Status Finish(const Lane& lane) const;
  Error Refused(const Lane& lane, int error) const;

  const std::unique_ptr<BlockFolder> folder_;
  const DiskFolderId id_;
  const DiskSlotLayout layout_;
  std::vector<Lane> lanes_;
  std::vector<size_t> free_lanes_;
  std::deque<PieceTransfer> waiting_;
  int num_under_way_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_MOVER_H_
