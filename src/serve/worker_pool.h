// WorkerPool: threads for what takes longer than a connection may wait.
#ifndef WINNOW_SERVE_WORKER_POOL_H_
#define WINNOW_SERVE_WORKER_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace winnow {

// Owns its threads; any thread posts, and never waits. Jobs of a kind begin in
// the order in which they came. Long ones never take the last thread, so that a
// short job waits for short ones alone; and while one waits and none is at
// work, it goes before them.
class WorkerPool {
 public:
  enum class Length : uint8_t { kShort, kLong };

  // REQUIRES: num_threads is at least 2.
  explicit WorkerPool(int num_threads);
  // Waits for the jobs that have begun; the others are dropped.
  ~WorkerPool();

  void Post(Length length, std::function<void()> job);

 private:
  // What a thread may begin now, or null. REQUIRES: mutex_ is held.
  std::deque<std::function<void()>>* Next();
  void Run();

  std::mutex mutex_;  // for what follows
  std::condition_variable came_;
  std::deque<std::function<void()>> short_jobs_;
  std::deque<std::function<void()>> long_jobs_;
  size_t num_long_ = 0;  // that have begun and not ended
  bool ending_ = false;
  std::vector<std::thread> threads_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_WORKER_POOL_H_
