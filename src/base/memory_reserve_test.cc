#include "base/memory_reserve.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <thread>
#include <vector>

namespace winnow {
namespace {

// More than any machine has.
constexpr size_t kTooMuch = size_t{1} << 60;
// What a test's own doings may take or give meanwhile.
constexpr size_t kSlack = size_t{1} << 20;

size_t AddressSpace() {
  size_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  return num_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class MemoryReserveTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "its own `new` asks no handler";
#endif
    // What the library takes for a thread, or where its first heap has failed,
    // stays for the next one.
    AskForTooMuch();
    std::thread([] { delete new int(1); }).join();
    ASSERT_TRUE(KeepMemoryReserve().ok());
    kept_ = AddressSpace();
  }
  void TearDown() override { DropMemoryReserve(); }

  // What went back to the system since.
  size_t Given() const {
    const size_t now = AddressSpace();
    return now < kept_ ? kept_ - now : 0;
  }
  static void AskForTooMuch() {
    volatile size_t num_bytes = kTooMuch;
    EXPECT_THROW(::operator delete(::operator new(num_bytes)), std::bad_alloc);
  }

  size_t kept_ = 0;
};

TEST_F(MemoryReserveTest, NewHasAllOfItBeforeItFails) {
  AskForTooMuch();
  EXPECT_GE(Given() + kSlack, kMemoryReserveBytes);
  EXPECT_FALSE(GiveReserveAway());
  EXPECT_TRUE(RetakeMemoryReserve());
  EXPECT_LE(Given(), kSlack);
  AskForTooMuch();
  EXPECT_GE(Given() + kSlack, kMemoryReserveBytes);
}

TEST_F(MemoryReserveTest, WorkThatMayLackMemoryHasNoneOfIt) {
  {
    const WorkMayLackMemory work;
    AskForTooMuch();
    EXPECT_LE(Given(), kSlack);
    // Another thread's work is its own.
    std::thread(AskForTooMuch).join();
  }
  EXPECT_GE(Given() + kSlack, kMemoryReserveBytes);
  EXPECT_TRUE(RetakeMemoryReserve());
  AskForTooMuch();
  EXPECT_GE(Given() + kSlack, kMemoryReserveBytes);
}

TEST_F(MemoryReserveTest, ItIsGivenInParts) {
  EXPECT_TRUE(GiveReserveAway());
  EXPECT_GE(Given() + kSlack, kMemoryReservePartBytes);
  EXPECT_LE(Given(), kMemoryReservePartBytes + kSlack);
}

TEST_F(MemoryReserveTest, RoomsAreTheirsWhoCannotFailAndGoFirst) {
  constexpr size_t kRoomBytes = size_t{256} << 20;
  auto first = MemoryRoom::Take(kRoomBytes);
  auto second = MemoryRoom::Take(kRoomBytes);
  auto third = MemoryRoom::Take(kRoomBytes);
  ASSERT_TRUE(first && second && third);
  kept_ = AddressSpace();
  AskForTooMuch();
  EXPECT_LE(Given(), kMemoryReserveBytes + kSlack);
  EXPECT_TRUE(RetakeMemoryReserve());
  second.reset();
  EXPECT_GE(Given() + kSlack, kRoomBytes);
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_GE(Given() + kSlack, 3 * kRoomBytes);
  EXPECT_LE(Given(), 3 * kRoomBytes + kSlack);
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_GE(Given() + kSlack, 3 * kRoomBytes + kMemoryReservePartBytes);
  first.reset();
  third.reset();
  EXPECT_LE(Given(), 3 * kRoomBytes + kMemoryReservePartBytes + kSlack);
  while (GiveMemoryAway()) {
  }
  EXPECT_FALSE(GiveReserveAway());
}

TEST_F(MemoryReserveTest, NoRoomIsTakenThatTheSystemHasNot) {
  EXPECT_EQ(MemoryRoom::Take(kTooMuch), nullptr);
  EXPECT_NE(MemoryRoom::Take(1), nullptr);
}

TEST(WithoutMemoryReserveTest, NothingIsGivenAndAllMayBegin) {
  EXPECT_TRUE(RetakeMemoryReserve());
  EXPECT_FALSE(GiveMemoryAway());
  const auto room = MemoryRoom::Take(1);
  ASSERT_NE(room, nullptr);
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_FALSE(GiveMemoryAway());
}

}  // namespace
}  // namespace winnow
