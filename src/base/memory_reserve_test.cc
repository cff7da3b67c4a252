#include "base/memory_reserve.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <thread>

namespace winnow {
namespace {

// More than any machine has.
constexpr size_t kTooMuch = size_t{1} << 60;
// What a test's own doings may take or give meanwhile.
constexpr size_t kSlack = size_t{1} << 20;
constexpr size_t kNumParts = kMemoryReserveBytes / kMemoryReservePartBytes;

// Compared only across calls that allocate nothing: where the library's heaps
// fail, and for threads, it maps more of them, as large as the reserve.
size_t AddressSpace() {
  size_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  return num_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void AskForTooMuch() {
  volatile size_t num_bytes = kTooMuch;
  EXPECT_THROW(::operator delete(::operator new(num_bytes)), std::bad_alloc);
}

class MemoryReserveTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "its own `new` asks no handler";
#endif
    ASSERT_TRUE(KeepMemoryReserve().ok());
  }
  void TearDown() override { DropMemoryReserve(); }

  // How many parts were there; none is left.
  static size_t TakeWhatIsLeft() {
    size_t num_parts = 0;
    while (GiveReserveAway()) ++num_parts;
    return num_parts;
  }
};

TEST_F(MemoryReserveTest, NewHasAllOfItBeforeItFails) {
  AskForTooMuch();
  EXPECT_EQ(TakeWhatIsLeft(), 0U);
  EXPECT_TRUE(RetakeMemoryReserve());
  EXPECT_EQ(TakeWhatIsLeft(), kNumParts);
  EXPECT_TRUE(RetakeMemoryReserve());
  AskForTooMuch();
  EXPECT_EQ(TakeWhatIsLeft(), 0U);
}

TEST_F(MemoryReserveTest, WorkThatMayLackMemoryHasNoneOfIt) {
  const WorkMayLackMemory work;
  AskForTooMuch();
  EXPECT_EQ(TakeWhatIsLeft(), kNumParts);
}

TEST_F(MemoryReserveTest, WorkThatMayLackMemoryIsItsThreadsUntilItEnds) {
  {
    const WorkMayLackMemory work;
    std::thread(AskForTooMuch).join();
  }
  EXPECT_EQ(TakeWhatIsLeft(), 0U);
  EXPECT_TRUE(RetakeMemoryReserve());
  AskForTooMuch();
  EXPECT_EQ(TakeWhatIsLeft(), 0U);
}

TEST_F(MemoryReserveTest, PartsGoBackToTheSystem) {
  const size_t kept = AddressSpace();
  EXPECT_TRUE(GiveReserveAway());
  const size_t given = kept - AddressSpace();
  EXPECT_GE(given + kSlack, kMemoryReservePartBytes);
  EXPECT_LE(given, kMemoryReservePartBytes + kSlack);
}

TEST_F(MemoryReserveTest, RoomsAreTheirsWhoCannotFailAndGoFirst) {
  constexpr size_t kRoomBytes = size_t{256} << 20;
  auto first = MemoryReservation::Take(kRoomBytes);
  auto second = MemoryReservation::Take(kRoomBytes);
  auto third = MemoryReservation::Take(kRoomBytes);
  ASSERT_TRUE(first && second && third);
  // What `new` lacks is taken of the reserve alone.
  AskForTooMuch();
  EXPECT_EQ(TakeWhatIsLeft(), 0U);
  EXPECT_TRUE(RetakeMemoryReserve());
  const size_t kept = AddressSpace();
  const auto given = [kept] { return kept - AddressSpace(); };
  second.reset();
  EXPECT_GE(given() + kSlack, kRoomBytes);
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_GE(given() + kSlack, 3 * kRoomBytes);
  EXPECT_LE(given(), 3 * kRoomBytes + kSlack);
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_GE(given() + kSlack, 3 * kRoomBytes + kMemoryReservePartBytes);
  first.reset();
  third.reset();
  EXPECT_LE(given(), 3 * kRoomBytes + kMemoryReservePartBytes + kSlack);
  while (GiveMemoryAway()) {
  }
  EXPECT_FALSE(GiveReserveAway());
}

TEST_F(MemoryReserveTest, NoRoomIsTakenThatTheSystemHasNot) {
  EXPECT_EQ(MemoryReservation::Take(kTooMuch), nullptr);
  EXPECT_NE(MemoryReservation::Take(1), nullptr);
}

TEST(WithoutMemoryReserveTest, NothingIsGivenAndAllMayBegin) {
  EXPECT_TRUE(RetakeMemoryReserve());
  EXPECT_FALSE(GiveMemoryAway());
  const auto room = MemoryReservation::Take(1);
  ASSERT_NE(room, nullptr);
  EXPECT_TRUE(GiveMemoryAway());
  EXPECT_FALSE(GiveMemoryAway());
}

}  // namespace
}  // namespace winnow
