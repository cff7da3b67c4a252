#include "backend/cuda/runtime/replays.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

class ReplaysTest : public testing::Test {
 protected:
  // Runs a step of as many launches; whether it had to be recorded.
  bool IsRecorded(Replays& replays, char name, int num_launches) {
    const int64_t before = replays.num_recorded();
    const auto key = static_cast<std::byte>(name);
    const int expected = (num_asked_ += num_launches);
    replays.Run(queue_, {&key, 1}, [&] {
      for (int i = 0; i < num_launches; ++i) {
        cudaLaunchHostFunc(
            queue_.stream(), [](void* sum) { ++*static_cast<int*>(sum); },
            &num_run_);
      }
    });
    EXPECT_EQ(num_run_, expected);
    return replays.num_recorded() > before;
  }

 private:
  CudaDevice device_;
  CudaQueue queue_{device_};
  int num_asked_ = 0, num_run_ = 0;
};

TEST_F(ReplaysTest, TheOldestGoWhereAllWouldTakeTooMuch) {
  Replays replays(5 * kGraphLaunchBytes);
  EXPECT_TRUE(IsRecorded(replays, 'a', 2));
  EXPECT_TRUE(IsRecorded(replays, 'b', 3));
  EXPECT_FALSE(IsRecorded(replays, 'a', 2));
  EXPECT_TRUE(IsRecorded(replays, 'c', 1));  // b goes: a came since.
  EXPECT_FALSE(IsRecorded(replays, 'a', 2));
  EXPECT_TRUE(IsRecorded(replays, 'd', 2));  // All have room.
  EXPECT_FALSE(IsRecorded(replays, 'c', 1));
  EXPECT_FALSE(IsRecorded(replays, 'a', 2));
  EXPECT_TRUE(IsRecorded(replays, 'b', 4));  // d and c go.
  EXPECT_TRUE(IsRecorded(replays, 'd', 2));
}

TEST_F(ReplaysTest, OneMayTakeMoreThanAllMay) {
  Replays replays(2 * kGraphLaunchBytes);
  EXPECT_TRUE(IsRecorded(replays, 'a', 1));
  EXPECT_TRUE(IsRecorded(replays, 'b', 7));
  EXPECT_FALSE(IsRecorded(replays, 'b', 7));
  EXPECT_TRUE(IsRecorded(replays, 'a', 1));
}

}  // namespace
}  // namespace winnow
