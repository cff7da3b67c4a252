#include "serve/http/byte_capacity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace winnow {
namespace {

TEST(ByteCapacityTest, AShareGrowsWhileThereIsRoomAndGivesItBack) {
  const auto room = std::make_shared<ByteCapacity>(100);
  std::optional<ByteCapacity::Share> first(room);
  ByteCapacity::Share second(room);
  EXPECT_TRUE(first->Grow(60));
  EXPECT_FALSE(second.Grow(41));
  EXPECT_TRUE(second.Grow(40));
  EXPECT_FALSE(first->Grow(61));
  EXPECT_TRUE(first->Grow(60));
  first.reset();
  EXPECT_FALSE(second.Grow(101));
  EXPECT_TRUE(second.Grow(100));
}

TEST(ByteCapacityTest, ASharesRoomLivesAsLongAsIt) {
  auto room = std::make_shared<ByteCapacity>(100);
  ByteCapacity::Share share(room);
  room.reset();
  EXPECT_TRUE(share.Grow(100));
}

// What threads hold together never exceeds it, and all of it comes back.
TEST(ByteCapacityTest, ThreadsTogetherHoldNoMore) {
  constexpr size_t kMaxBytes = 1000;
  const auto room = std::make_shared<ByteCapacity>(kMaxBytes);
  std::atomic<size_t> num_held = 0;
  std::atomic<size_t> most_held = 0;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 20'000; ++i) {
        ByteCapacity::Share share(room);
        size_t num_bytes = 0;
        for (int grown = 0; grown < 3; ++grown) {
          const size_t num_more = random() % 400;
          if (!share.Grow(num_bytes + num_more)) break;
          num_bytes += num_more;
          const size_t now = num_held += num_more;
          size_t most = most_held;
          while (most < now && !most_held.compare_exchange_weak(most, now)) {
          }
        }
        num_held -= num_bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most_held, kMaxBytes);
  EXPECT_TRUE(ByteCapacity::Share(room).Grow(kMaxBytes));
}

}  // namespace
}  // namespace winnow
