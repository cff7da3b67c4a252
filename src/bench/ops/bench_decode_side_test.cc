#include "bench/ops/bench_decode_side.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "bench/roofs/roof.h"

namespace winnow {
namespace {

TEST(BenchDecodeSideTest, AmdahlLeavesTheRestOfAStep) {
  const DecodeTurn dense = {.step_seconds = 10, .attention_seconds = 8};
  EXPECT_DOUBLE_EQ(AmdahlRate(dense, 8), 1);
  EXPECT_DOUBLE_EQ(AmdahlRate(dense, 2), 2.5);
  EXPECT_DOUBLE_EQ(AmdahlRate(dense, 0), 5) << "no more, however little";
  EXPECT_DOUBLE_EQ(AmdahlRate(dense, 18), 0.5);
}

TEST(BenchDecodeSideTest, QuartilesLieAboutTheMedian) {
  EXPECT_EQ(Quartiles({5}), (std::pair<double, double>(5, 5)));
  EXPECT_EQ(Quartiles({4, 1, 3, 2, 5, 8, 7, 6}),
            (std::pair<double, double>(3, 7)));
}

// Attention's ops count, and no others; what has been taken is gone.
TEST(BenchDecodeSideTest, TheTimerCountsAttentionAlone) {
  AttentionTimer timer(MakeCpuBackend({.num_threads = 1}));
  const std::unique_ptr<Queue> queue = timer.MakeQueue();
  timer.CopyPagePrefixes(*queue, {});
  EXPECT_EQ(timer.TakeSeconds(), 0);
  timer.Select(*queue, {}, {}, {});
  EXPECT_GT(timer.TakeSeconds(), 0);
  EXPECT_EQ(timer.TakeSeconds(), 0);
}

}  // namespace
}  // namespace winnow
