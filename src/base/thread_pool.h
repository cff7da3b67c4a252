// ThreadPool: threads that share out the items of a loop.
#ifndef WINNOW_BASE_THREAD_POOL_H_
#define WINNOW_BASE_THREAD_POOL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace winnow {

// Owns num_workers() - 1 threads; the thread that calls ParallelFor is the
// remaining worker, number 0. One thread at a time may call ParallelFor, and
// not from inside an item. Between calls the threads spin for a tenth of
// a millisecond, so that the ops of a step follow one another without a
// system call, and then sleep. A call allocates nothing.
class ThreadPool {
 public:
  // Starts CountWorkers(num_threads) workers, or fewer where the system gives
  // no more: num_workers() tells.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // `num_threads` workers in all; 0: as many as the process may run on.
  static int CountWorkers(int num_threads);

  int num_workers() const { return static_cast<int>(threads_.size()) + 1; }

  // Runs fn(item, worker) for every item in [0, num_items), each once, and
  // returns when all have ended. Items are handed out in ascending order to
  // whichever worker is free; `worker` is in [0, num_workers()) and two items
  // that run at the same time have different ones. Threads that wake up late
  // are not waited for.
  template <typename Fn>
  void ParallelFor(int64_t num_items, Fn&& fn) {
    using Callee = std::remove_reference_t<Fn>;
    Run({[](void* context, int64_t item, int worker) {
           (*static_cast<Callee*>(context))(item, worker);
         },
         const_cast<void*>(static_cast<const void*>(std::addressof(fn))),
         num_items});
  }

  // The same over [0, size) cut into ranges of `grain`, the last one shorter:
  // fn(begin, end, worker).
  template <typename Fn>
  void ParallelRanges(int64_t size, int64_t grain, Fn&& fn) {
    ParallelFor((size + grain - 1) / grain, [&](int64_t item, int worker) {
      fn(item * grain, std::min(size, (item + 1) * grain), worker);
    });
  }

 private:
  // A borrowed callable and how often to call it.
  struct Job {
    void (*call)(void* context, int64_t item, int worker) = nullptr;
    void* context = nullptr;
    int64_t num_items = 0;
  };

  void Run(const Job& job);
  void WorkerMain(int worker);
  void RunItems(int worker);
  // Blocks until state_ differs from `seen`; returns the new state.
  uint64_t AwaitChange(uint64_t seen);
  // True where the worker may run items of the job that `state` announces.
  bool Join(uint64_t state);
  void Leave();

  // The caller writes job_ while no worker has joined. state_ counts jobs in
  // its upper half; below it stand kOpen, while workers may join, and the
  // number of those that have joined and not left.
  Job job_;
  alignas(64) std::atomic<int64_t> next_item_{0};
  alignas(64) std::atomic<uint64_t> state_{0};
  // What sleepers wait on (a 32-bit word is a futex), bumped with each job.
  alignas(64) std::atomic<uint32_t> wake_{0};
  std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace winnow

#endif  // WINNOW_BASE_THREAD_POOL_H_
