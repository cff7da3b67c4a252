#include "serve/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>

namespace winnow {
namespace {

using Length = WorkerPool::Length;

TEST(WorkerPoolTest, JobsOfAKindBeginInOrder) {
  constexpr int kNumJobs = 200;
  std::vector<int> order;
  std::latch all(kNumJobs);
  // Of two threads one does long jobs, so these run one after the other.
  WorkerPool pool(2);
  for (int i = 0; i < kNumJobs; ++i) {
    pool.Post(Length::kLong, [&, i] {
      order.push_back(i);
      all.count_down();
    });
  }
  all.wait();
  for (int i = 0; i < kNumJobs; ++i) EXPECT_EQ(order[i], i);
}

TEST(WorkerPoolTest, LongJobsLeaveAThread) {
  std::latch go(1);
  std::atomic<int> num_at_work = 0;
  std::atomic<int> most_at_work = 0;
  std::latch all(8);
  std::latch some_short(8);
  WorkerPool pool(3);
  for (int i = 0; i < 8; ++i) {
    pool.Post(Length::kLong, [&] {
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
    pool.Post(Length::kShort, [&] { some_short.count_down(); });
  }
  some_short.wait();  // Though no long job has ended.
  go.count_down();
  all.wait();
  EXPECT_EQ(most_at_work, 2);
}

TEST(WorkerPoolTest, ShortJobsDoNotKeepALongOneWaiting) {
  std::atomic<bool> is_done = false;
  std::latch done(1);
  WorkerPool pool(2);
  // Each brings the next: there is always a short job that waits.
  const std::function<void()> again = [&] {
    if (!is_done) pool.Post(Length::kShort, again);
  };
  for (int i = 0; i < 4; ++i) pool.Post(Length::kShort, again);
  pool.Post(Length::kLong, [&] {
    is_done = true;
    done.count_down();
  });
  done.wait();
}

TEST(WorkerPoolTest, AnEndDropsWhatHasNotBegun) {
  const auto held = std::make_shared<int>(0);
  std::latch begun(1);
  std::latch go(1);
  std::atomic<int> num_run = 0;
  {
    WorkerPool pool(2);
    pool.Post(Length::kLong, [&] {
      begun.count_down();
      go.wait();
      ++num_run;
    });
    begun.wait();
    pool.Post(Length::kLong, [&num_run, held] { ++num_run; });
    EXPECT_EQ(held.use_count(), 2);
    go.count_down();
  }
  EXPECT_GE(num_run, 1);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace winnow
