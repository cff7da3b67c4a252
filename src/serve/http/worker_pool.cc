#include "serve/http/worker_pool.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"

namespace winnow {

WorkerPool::WorkerPool(int num_threads, size_t max_long_bytes)
    : max_long_bytes_(max_long_bytes) {
  CHECK(num_threads >= 2, "threads={}", num_threads);
  threads_.reserve(static_cast<size_t>(num_threads));
  try {
    // Before any of them asks how many there are.
    const std::scoped_lock lock(mutex_);
    for (int i = 0; i < num_threads; ++i) {
      std::thread& thread = threads_.emplace_back([this] { Run(); });
      pthread_setname_np(thread.native_handle(), "winnow-work");
    }
  } catch (...) {
    End();  // Those that could be started.
    throw;
  }
}

WorkerPool::~WorkerPool() { End(); }

void WorkerPool::End() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  came_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

WorkerPool::Ticket WorkerPool::Post(Length length, size_t num_bytes,
                                    std::function<void()> run) {
  const bool is_long = length == Length::kLong;
  Job job = {.num_bytes = is_long ? std::min(num_bytes, max_long_bytes_) : 0,
             .run = std::move(run)};
  Ticket ticket{};
  {
    const std::scoped_lock lock(mutex_);
    ticket = Ticket{++num_tickets_};
    (is_long ? long_jobs_ : short_jobs_).emplace(ticket, std::move(job));
  }
  came_.notify_one();
  return ticket;
}

void WorkerPool::Withdraw(Ticket ticket) {
  Jobs::node_type of_short;
  Jobs::node_type of_long;
  {
    const std::scoped_lock lock(mutex_);
    of_short = short_jobs_.extract(ticket);
    of_long = long_jobs_.extract(ticket);
  }
  came_.notify_all();
}

WorkerPool::Jobs* WorkerPool::Next() {
  const bool has_room = num_long_ + 1 < threads_.size();
  const bool may_be_long =
      has_room && !long_jobs_.empty() &&
      long_bytes_ + long_jobs_.begin()->second.num_bytes <= max_long_bytes_;
  if (may_be_long && num_long_ == 0) return &long_jobs_;
  if (!short_jobs_.empty()) return &short_jobs_;
  return may_be_long ? &long_jobs_ : nullptr;
}

void WorkerPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    came_.wait(lock, [this] { return ending_ || Next() != nullptr; });
    if (ending_) return;
    Jobs* const jobs = Next();
    const bool is_long = jobs == &long_jobs_;
    Jobs::node_type job = jobs->extract(jobs->begin());
    const size_t num_bytes = job.mapped().num_bytes;
    num_long_ += is_long ? 1 : 0;
    long_bytes_ += num_bytes;
    lock.unlock();
    try {
      job.mapped().run();
    } catch (const std::bad_alloc&) {
      // Whoever waits for it waits for its end; nobody else does.
    }
    job = {};
    lock.lock();
    // Whoever has ended looks for the next itself; there may be more.
    num_long_ -= is_long ? 1 : 0;
    long_bytes_ -= num_bytes;
    if (num_bytes > 0) came_.notify_all();
  }
}

}  // namespace winnow
