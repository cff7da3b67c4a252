// WorkerPool: threads for what takes longer than a connection may wait.
#ifndef WINNOW_SERVE_HTTP_WORKER_POOL_H_
#define WINNOW_SERVE_HTTP_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace winnow {

// Owns its threads; any thread posts, and never waits. Jobs of a kind begin in
// the order in which they came. Long ones never take the last thread, so that a
// short job waits for short ones alone; and while one waits and none is at
// work, it goes before them. Those at work have at most max_long_bytes
// together: one that has more is alone. A job that throws std::bad_alloc has
// ended.
class WorkerPool {
 public:
  enum class Length : uint8_t { kShort, kLong };

  // Names a job that was posted.
  enum class Ticket : uint64_t {};

  // Throws what std::thread does where a thread cannot be started. REQUIRES:
  // num_threads is at least 2.
  WorkerPool(int num_threads, size_t max_long_bytes);
  // Waits for the jobs that have begun; the others are dropped.
  ~WorkerPool();

  // `num_bytes`: what it works on; counts where it is long.
  Ticket Post(Length length, size_t num_bytes, std::function<void()> job);
  // A job that has not begun is dropped, and those behind it wait for it no
  // longer.
  void Withdraw(Ticket ticket);

 private:
  struct Job {
    size_t num_bytes = 0;
    std::function<void()> run;
  };
  using Jobs = std::map<Ticket, Job>;  // in the order in which they came

  // What a thread may begin now, or null. REQUIRES: mutex_ is held.
  Jobs* Next();
  void Run();
  void End();

  const size_t max_long_bytes_;
  std::mutex mutex_;  // for what follows
  std::condition_variable came_;
  Jobs short_jobs_;
  Jobs long_jobs_;
  uint64_t num_tickets_ = 0;
  size_t num_long_ = 0;    // that have begun and not ended
  size_t long_bytes_ = 0;  // that these have
  bool ending_ = false;
  std::vector<std::thread> threads_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_WORKER_POOL_H_
