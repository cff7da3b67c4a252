#include "serve/http/worker_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace winnow {
namespace {

using Length = WorkerPool::Length;

constexpr size_t kNoBound = SIZE_MAX;

TEST(WorkerPoolTest, JobsOfAKindBeginInOrder) {
  constexpr int kNumJobs = 200;
  std::vector<int> order;
  std::latch all(kNumJobs);
  // Of two threads one does long jobs, so these run one after the other.
  WorkerPool pool(2, kNoBound);
  for (int i = 0; i < kNumJobs; ++i) {
    pool.Post(Length::kLong, 1, [&, i] {
      order.push_back(i);
      all.count_down();
    });
  }
  all.wait();
  for (int i = 0; i < kNumJobs; ++i) EXPECT_EQ(order[i], i);
}

TEST(WorkerPoolTest, AJobThatFindsNoMemoryEndsAlone) {
  constexpr int kNumJobs = 20;
  std::latch all(kNumJobs);
  WorkerPool pool(2, 1);
  for (int i = 0; i < kNumJobs; ++i) {
    pool.Post(Length::kLong, 1, [] { throw std::bad_alloc(); });
    pool.Post(Length::kLong, 1, [&] { all.count_down(); });
  }
  all.wait();
}

TEST(WorkerPoolTest, LongJobsLeaveAThread) {
  std::latch go(1);
  std::atomic<int> num_at_work = 0;
  std::atomic<int> most_at_work = 0;
  std::latch all(8);
  std::latch some_short(8);
  WorkerPool pool(3, kNoBound);
  for (int i = 0; i < 8; ++i) {
    pool.Post(Length::kLong, 1, [&] {
      const int now = ++num_at_work;
      int most = most_at_work;
      while (most < now && !most_at_work.compare_exchange_weak(most, now)) {
      }
      go.wait();
      --num_at_work;
      all.count_down();
    });
  }
  for (int i = 0; i < 8; ++i) {
    pool.Post(Length::kShort, 1, [&] { some_short.count_down(); });
  }
  some_short.wait();  // Though no long job has ended.
  go.count_down();
  all.wait();
  EXPECT_EQ(most_at_work, 2);
}

// Jobs that take a millisecond and bring the next, until that many have run:
// there is always one that waits.
class ChainOfJobs {
 public:
  ChainOfJobs(WorkerPool& pool, Length length, int num_jobs)
      : pool_(pool), length_(length), num_jobs_(num_jobs) {}

  void Continue() {
    pool_.Post(length_, 1, [this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (++num_run_ < num_jobs_) Continue();
    });
  }
  int num_run() const { return num_run_; }

 private:
  WorkerPool& pool_;
  const Length length_;
  const int num_jobs_;
  std::atomic<int> num_run_ = 0;
};

TEST(WorkerPoolTest, ShortJobsDoNotKeepALongOneWaiting) {
  constexpr int kNumJobs = 1000;
  std::optional<ChainOfJobs> chain;
  int num_before = kNumJobs;
  std::latch done(1);
  WorkerPool pool(2, kNoBound);
  chain.emplace(pool, Length::kShort, kNumJobs);
  for (int i = 0; i < 4; ++i) chain->Continue();
  pool.Post(Length::kLong, 1, [&] {
    num_before = chain->num_run();
    done.count_down();
  });
  done.wait();
  EXPECT_LT(num_before, kNumJobs / 2);
}

TEST(WorkerPoolTest, AnEndDropsWhatHasNotBegun) {
  constexpr int kNumJobs = 1000;
  const auto held = std::make_shared<int>(0);
  std::optional<ChainOfJobs> chain;
  {
    WorkerPool pool(2, kNoBound);
    chain.emplace(pool, Length::kLong, kNumJobs);
    chain->Continue();
    pool.Post(Length::kLong, 1, [held] {});
    pool.Post(Length::kLong, 1, [held] {});
  }
  EXPECT_LT(chain->num_run(), kNumJobs / 2);
  EXPECT_EQ(held.use_count(), 1);
}

// What long jobs work on at once.
struct BytesAtWork {
  std::mutex mutex;
  size_t now = 0, most = 0;
  std::vector<size_t> begun;

  void Begin(size_t num_bytes) {
    const std::scoped_lock lock(mutex);
    now += num_bytes;
    most = std::max(most, now);
    begun.push_back(num_bytes);
  }
  void End(size_t num_bytes) {
    const std::scoped_lock lock(mutex);
    now -= num_bytes;
  }
};

TEST(WorkerPoolTest, LongJobsHaveBoundedBytesAtOnce) {
  constexpr size_t kMost = 100;
  std::mt19937 random(7);
  std::vector<size_t> sizes(200);
  for (size_t& size : sizes) size = 1 + random() % 150;
  BytesAtWork work;
  std::latch all(std::ssize(sizes));
  WorkerPool pool(8, kMost);
  for (const size_t size : sizes) {
    pool.Post(Length::kLong, size, [&, counted = std::min(size, kMost)] {
      work.Begin(counted);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      work.End(counted);
      all.count_down();
    });
  }
  all.wait();
  EXPECT_LE(work.most, kMost);
  EXPECT_EQ(work.begun.size(), sizes.size());
}

// Four of a quarter meet, though what was there before them had it all.
TEST(WorkerPoolTest, WhatEndsMakesRoomForAllThatFit) {
  std::latch posted(1);
  std::latch together(4);
  WorkerPool pool(8, 100);
  pool.Post(Length::kLong, 1000, [&] { posted.wait(); });
  for (int i = 0; i < 4; ++i) {
    pool.Post(Length::kLong, 25, [&] { together.arrive_and_wait(); });
  }
  // Until whoever was woken for them sleeps again.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  posted.count_down();
  together.wait();
}

TEST(WorkerPoolTest, ShortJobsDoNotWaitForBytes) {
  std::latch go(1);
  std::latch done(1);
  WorkerPool pool(4, 100);
  pool.Post(Length::kLong, 100, [&] { go.wait(); });
  pool.Post(Length::kLong, 100, [] {});
  pool.Post(Length::kShort, 100, [&] { done.count_down(); });
  done.wait();
  go.count_down();
}

TEST(WorkerPoolTest, NobodyWaitsForWhatIsWithdrawn) {
  const auto held = std::make_shared<int>(0);
  std::latch begun(1);
  std::latch go(1);
  std::latch behind(1);
  bool was_done = false;
  WorkerPool pool(4, 100);
  pool.Post(Length::kLong, 50, [&] {
    begun.count_down();
    go.wait();
  });
  begun.wait();
  const auto ticket =
      pool.Post(Length::kLong, 100, [&was_done, held] { was_done = true; });
  pool.Post(Length::kLong, 50, [&] { behind.count_down(); });
  EXPECT_FALSE(behind.try_wait());
  pool.Withdraw(ticket);
  EXPECT_EQ(held.use_count(), 1);
  behind.wait();  // Though the first has not ended.
  go.count_down();
  pool.Withdraw(ticket);  // Nothing is left of it.
  EXPECT_FALSE(was_done);
}

}  // namespace
}  // namespace winnow
