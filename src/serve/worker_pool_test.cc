#include "serve/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <thread>

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

// Jobs that take a millisecond and bring the next, until that many have run:
// there is always one that waits.
class ChainOfJobs {
 public:
  ChainOfJobs(WorkerPool& pool, Length length, int num_jobs)
      : pool_(pool), length_(length), num_jobs_(num_jobs) {}

  void Continue() {
    pool_.Post(length_, [this] {
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
  WorkerPool pool(2);
  chain.emplace(pool, Length::kShort, kNumJobs);
  for (int i = 0; i < 4; ++i) chain->Continue();
  pool.Post(Length::kLong, [&] {
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
    WorkerPool pool(2);
    chain.emplace(pool, Length::kLong, kNumJobs);
    chain->Continue();
    pool.Post(Length::kLong, [held] {});
    pool.Post(Length::kLong, [held] {});
  }
  EXPECT_LT(chain->num_run(), kNumJobs / 2);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace winnow
