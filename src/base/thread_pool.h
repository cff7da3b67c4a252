// ThreadPool: threads that share the items of a loop.
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

// Owns num_workers() - 1 threads. The thread that calls ParallelFor is worker
// 0. One thread at a time may call ParallelFor, and not from inside an item.
// Between calls the threads spin for a tenth of a millisecond, so that the ops
// of a step need no system call between them. Then they sleep. A call allocates
// nothing.
class ThreadPool {
 public:
  // Starts CountWorkers(num_threads) workers, or fewer if the system refuses
  // more; num_workers() returns their number.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // The number of workers for `num_threads`; 0: as many CPUs as the process may
  // use.
  static int CountWorkers(int num_threads);

  int num_workers() const { return static_cast<int>(threads_.size()) + 1; }

  // Runs fn(item, worker) once for every item in [0, num_items) and returns
  // when all have ended. Free workers get items in ascending order. `worker` is
  // in [0, num_workers()); two items that run at the same time have different
  // workers. Does not wait for threads that wake up late.
  template <typename Fn>
  void ParallelFor(int64_t num_items, Fn&& fn) {
    using Callee = std::remove_reference_t<Fn>;
    Run({[](void* context, int64_t item, int worker) {
           (*static_cast<Callee*>(context))(item, worker);
         },
         const_cast<void*>(static_cast<const void*>(std::addressof(fn))),
         num_items});
  }

  // As ParallelFor over [0, size), cut into ranges of `grain`, the last one
  // shorter: fn(begin, end, worker).
  template <typename Fn>
  void ParallelRanges(int64_t size, int64_t grain, Fn&& fn) {
    ParallelFor((size + grain - 1) / grain, [&](int64_t item, int worker) {
      fn(item * grain, std::min(size, (item + 1) * grain), worker);
    });
  }

 private:
  // A borrowed callable, and the number of calls.
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
  // True if the worker may run items of the job that `state` announces.
  bool Join(uint64_t state);
  void Leave();

  // The caller writes job_ while no worker has joined. The upper half of state_
  // counts jobs. The lower half holds kOpen while workers may join, and the
  // number of workers that have joined and not left.
  Job job_;
  alignas(64) std::atomic<int64_t> next_item_{0};
  alignas(64) std::atomic<uint64_t> state_{0};
  // The futex of sleeping workers (a 32-bit word); incremented with each job.
  alignas(64) std::atomic<uint32_t> wake_{0};
  std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace winnow

#endif  // WINNOW_BASE_THREAD_POOL_H_
