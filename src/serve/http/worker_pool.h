// WorkerPool: threads for work that takes longer than a connection may wait.
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

// Owns its threads. Any thread may post, without waiting. Jobs of one length
// begin in order. Long jobs never take the last thread, so a short job waits
// for short ones alone. A long job goes before waiting short jobs if no long
// one is in work. Long jobs in work have at most max_long_bytes together; a
// larger one runs alone. A job that throws std::bad_alloc has ended.
class WorkerPool {
 public:
  enum class Length : uint8_t { kShort, kLong };

  // Names a posted job.
  enum class Ticket : uint64_t {};

  // Throws as std::thread does if a thread cannot be started. REQUIRES:
  // num_threads is at least 2.
  WorkerPool(int num_threads, size_t max_long_bytes);
  // Waits for jobs that have begun and drops the others.
  ~WorkerPool();

  // `num_bytes`: the size of the job's input, which counts if the job is long.
  Ticket Post(Length length, size_t num_bytes, std::function<void()> job);
  // Drops a job that has not begun; jobs behind it no longer wait for it.
  void Withdraw(Ticket ticket);

 private:
  struct Job {
    size_t num_bytes = 0;
    std::function<void()> run;
  };
  using Jobs = std::map<Ticket, Job>;  // in the order of posting

  // The queue from which a thread may begin a job now, or null. REQUIRES:
  // mutex_ is held.
  Jobs* Next();
  void Run();
  void End();

  const size_t max_long_bytes_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable came_;
  Jobs short_jobs_;
  Jobs long_jobs_;
  uint64_t num_tickets_ = 0;
  size_t num_long_ = 0;    // begun and not ended
  size_t long_bytes_ = 0;  // input bytes of these
  bool ending_ = false;
  std::vector<std::thread> threads_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_WORKER_POOL_H_
