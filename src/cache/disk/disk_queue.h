// Pieces on their way to and from a disk, beside a thread that does not wait.
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

// Owns a mover and, where asked for, the thread that pumps it: copies,
// checksums and system calls are then no work of the caller's. Without one,
// Submit and Take pump, in an order that a test can repeat.
class PieceQueue {
 public:
  PieceQueue(std::unique_ptr<PieceMover> mover, bool has_own_thread);
  PieceQueue(const PieceQueue&) = delete;
  PieceQueue& operator=(const PieceQueue&) = delete;
  // Waits for what is under way; what has not begun never will.
  ~PieceQueue();

  // Never waits. REQUIRES: as PieceMover::Add.
  void Submit(std::vector<PieceTransfer> transfers);
  // What has ended since the last call; with `wait`, at least one if any is
  // left.
  std::vector<PieceDone> Take(bool wait);
  // `on_done` is called on the queue's own thread, if it has one, whenever
  // there is more to take; never again once another one has taken its place.
  // It must not call the queue.
  void SetListener(std::function<void()> on_done);

 private:
  void Run();

  const std::unique_ptr<PieceMover> mover_;  // the thread's, if there is one
  std::mutex mutex_;
  std::condition_variable has_work_, has_done_;
  std::vector<PieceTransfer> submitted_;  // guarded by mutex_, as all below
  std::vector<PieceDone> done_;
  int64_t num_open_ = 0;  // submitted, and neither done nor dropped
  std::function<void()> on_done_;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_QUEUE_H_
