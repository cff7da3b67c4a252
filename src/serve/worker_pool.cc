#include "serve/worker_pool.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"

namespace winnow {

WorkerPool::WorkerPool(int num_threads) {
  CHECK(num_threads >= 2, "threads={}", num_threads);
  // Before any of them asks how many there are.
  const std::scoped_lock lock(mutex_);
  for (int i = 0; i < num_threads; ++i) {
    std::thread& thread = threads_.emplace_back([this] { Run(); });
    pthread_setname_np(thread.native_handle(), "winnow-work");
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  came_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Post(Length length, std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    auto& jobs = length == Length::kLong ? long_jobs_ : short_jobs_;
    jobs.push_back(std::move(job));
  }
  came_.notify_one();
}

std::deque<std::function<void()>>* WorkerPool::Next() {
  const bool has_room = num_long_ + 1 < threads_.size();
  const bool may_be_long = has_room && !long_jobs_.empty();
  if (may_be_long && num_long_ == 0) return &long_jobs_;
  if (!short_jobs_.empty()) return &short_jobs_;
  return may_be_long ? &long_jobs_ : nullptr;
}

void WorkerPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    came_.wait(lock, [this] { return ending_ || Next() != nullptr; });
    if (ending_) return;
    auto* const jobs = Next();
    const bool is_long = jobs == &long_jobs_;
    num_long_ += is_long ? 1 : 0;
    {
      const std::function<void()> job = std::move(jobs->front());
      jobs->pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
    // Whoever has ended looks for the next itself.
    num_long_ -= is_long ? 1 : 0;
  }
}

}  // namespace winnow
