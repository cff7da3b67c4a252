#include "base/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "base/check.h"

namespace winnow {
namespace {

constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kJoinedMask = kOpen - 1;
constexpr uint64_t kNextJob = uint64_t{1} << 32;
// How long a thread waits before it sleeps: longer than the gap between two
// ops or than what one worker ends before another, shorter than a person or a
// scheduler would notice. (To wake up took 30 to 80 us on virtual
// CPUs, by a trace that is not kept.)
constexpr std::chrono::microseconds kSpinTime{100};

// Waits until `done`, for a while: says whether it is.
template <typename Done>
bool Spin(Done&& done) {
  constexpr int kPausesALook = 16;
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesALook; ++i) {
      if (done()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace

int ThreadPool::CountWorkers(int num_threads) {
  CHECK(num_threads >= 0, "num_threads={}", num_threads);
  if (num_threads > 0) return num_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The library says by an exception that the system gives no more threads, or
// no memory for their stacks.
ThreadPool::ThreadPool(int num_threads) {
  const int num_workers = CountWorkers(num_threads);
  threads_.reserve(static_cast<size_t>(num_workers - 1));
  try {
    for (int worker = 1; worker < num_workers; ++worker) {
      threads_.emplace_back([this, worker] { WorkerMain(worker); });
    }
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  state_.fetch_add(kNextJob);
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(const Job& job) {
  CHECK(job.num_items >= 0, "num_items={}", job.num_items);
  CHECK(!busy_.exchange(true), "ParallelFor inside a ParallelFor");
  job_ = job;
  next_item_.store(0);
  const bool shared = job.num_items > 1 && !threads_.empty();
  if (shared) {
    state_.fetch_add(kNextJob + kOpen);
    wake_.fetch_add(1);
    wake_.notify_all();
  }
  RunItems(0);
  if (shared) {
    uint64_t state = state_.fetch_and(~kOpen) & ~kOpen;
    while ((state & kJoinedMask) != 0) state = AwaitChange(state);
  }
  busy_.store(false);
}

void ThreadPool::WorkerMain(int worker) {
  uint64_t seen_job = 0;
  uint64_t state = state_.load();
  while (true) {
    if (stop_.load()) return;
    const bool fresh = state / kNextJob != seen_job;
    seen_job = state / kNextJob;
    if (fresh && Join(state)) {
      RunItems(worker);
      Leave();
    }
    state = state_.load();
    if (state / kNextJob != seen_job) continue;
    // Only a later job is news; that others join or leave is not.
    const uint32_t wake = wake_.load();
    const bool has_news = Spin([&] {
      state = state_.load(std::memory_order_acquire);
      return state / kNextJob != seen_job;
    });
    if (!has_news) {
      state = state_.load();
      if (state / kNextJob == seen_job && !stop_.load()) wake_.wait(wake);
      state = state_.load();
    }
  }
}

void ThreadPool::RunItems(int worker) {
  const Job job = job_;
  while (true) {
    const int64_t item = next_item_.fetch_add(1, std::memory_order_relaxed);
    if (item >= job.num_items) return;
    job.call(job.context, item, worker);
  }
}

bool ThreadPool::Join(uint64_t state) {
  const uint64_t job = state / kNextJob;
  while (state / kNextJob == job && (state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1)) return true;
  }
  return false;
}

void ThreadPool::Leave() {
  const uint64_t before = state_.fetch_sub(1);
  // The last to leave a closed job may be what the caller sleeps for.
  if ((before & kOpen) == 0 && (before & kJoinedMask) == 1) {
    state_.notify_all();
  }
}

uint64_t ThreadPool::AwaitChange(uint64_t seen) {
  uint64_t state = seen;
  const bool changes = Spin([&] {
    state = state_.load(std::memory_order_acquire);
    return state != seen;
  });
  if (changes) return state;
  state_.wait(seen);
  return state_.load();
}

}  // namespace winnow
