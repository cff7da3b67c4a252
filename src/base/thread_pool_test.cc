#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace winnow {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryItemOnceWhateverTheirNumber) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.num_workers(), GetParam());
  for (const int64_t num_items : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(num_items));
    std::atomic<bool> worker_in_range{true};
    pool.ParallelFor(num_items, [&](int64_t item, int worker) {
      ++runs[static_cast<size_t>(item)];
      if (worker < 0 || worker >= pool.num_workers()) worker_in_range = false;
    });
    for (const auto& count : runs) EXPECT_EQ(count.load(), 1) << num_items;
    EXPECT_TRUE(worker_in_range);
  }
}

TEST_P(ThreadPoolTest, RangesCoverWithoutOverlap) {
  ThreadPool pool(GetParam());
  for (const int64_t size : {0, 1, 9, 10, 11, 100}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(size));
    pool.ParallelRanges(size, 10, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
    });
    for (const auto& count : runs) EXPECT_EQ(count.load(), 1) << size;
  }
}

// A worker's scratch is its own: no two items that overlap in time share it.
// What items write is there when ParallelFor returns, without atomics.
TEST_P(ThreadPoolTest, ScratchByWorkerIsNeverShared) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> sums(static_cast<size_t>(pool.num_workers()) * 16);
  int64_t expected = 0;
  for (int round = 0; round < 2000; ++round) {
    const int64_t num_items = round % 37;
    pool.ParallelFor(num_items, [&](int64_t item, int worker) {
      sums[static_cast<size_t>(worker) * 16] += item;
    });
    expected += num_items * (num_items - 1) / 2;
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), int64_t{0}), expected);
}

TEST_P(ThreadPoolTest, WakesAfterItsThreadsHaveGoneToSleep) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> arrived{0};
    // Every worker must come, or the items would wait for ever.
    pool.ParallelFor(pool.num_workers(), [&](int64_t, int) {
      ++arrived;
      while (arrived < pool.num_workers()) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, pool.num_workers());
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPoolDeathTest, RefusesNestedCalls) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto nest = [] {
    ThreadPool pool(1);
    pool.ParallelFor(
        1, [&](int64_t, int) { pool.ParallelFor(1, [](int64_t, int) {}); });
  };
  EXPECT_DEATH(nest(), "ParallelFor inside a ParallelFor");
  EXPECT_DEATH(ThreadPool(-1), "num_threads=-1");
}

TEST(ThreadPoolTest, ZeroMeansWhateverTheProcessMayUse) {
  EXPECT_GE(ThreadPool(0).num_workers(), 1);
}

}  // namespace
}  // namespace winnow
