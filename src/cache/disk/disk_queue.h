// PieceQueue: transfers of pieces for a thread that does not wait.
#ifndef WINNOW_CACHE_DISK_DISK_QUEUE_H_
#define WINNOW_CACHE_DISK_DISK_QUEUE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cache/disk/disk_mover.h"

namespace winnow {

// Owns a mover and, if asked for, the thread that pumps it. Copies, checksums
// and system calls then cost the caller no time. Without the thread, Submit and
// Take pump, in an order that a test can repeat.
class PieceQueue {
 public:
  PieceQueue(std::unique_ptr<PieceMover> mover, bool has_own_thread);
  PieceQueue(const PieceQueue&) = delete;
  PieceQueue& operator=(const PieceQueue&) = delete;
  // Waits for transfers in flight. Drops transfers that have not begun.
  ~PieceQueue();

  // Never waits. REQUIRES: as PieceMover::Add.
  void Submit(std::vector<PieceTransfer> transfers);
  // The transfers that have ended since the last call. With `wait`, waits for
  // at least one if any is left.
  std::vector<PieceDone> Take(bool wait);
  // Calls `on_done` on the queue's own thread, if it has one, whenever there is
  // more to take. A listener that was replaced is never called again. A
  // listener must not call the queue.
  void SetListener(std::function<void()> on_done);

 private:
  void Run();

  const std::unique_ptr<PieceMover>
      mover_;  // used by the thread, if there is one
  std::mutex mutex_;
  std::condition_variable has_work_, has_done_;
  std::vector<PieceTransfer> submitted_;  // guarded by mutex_, as are all below
  std::vector<PieceDone> done_;
  int64_t num_open_ = 0;  // submitted, and neither done nor dropped
  std::function<void()> on_done_;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_QUEUE_H_
