#include "engine/step_meter.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kLayers = 2;
constexpr int64_t kPageBytes = 1000;
constexpr StepMeter::Clock::time_point kStart{seconds(100)};

DiskCounts Moved(int64_t num_written, int64_t num_read, double read_seconds) {
  DiskCounts counts;
  counts.num_written = num_written;
  counts.num_read = num_read;
  counts.read_seconds = read_seconds;
  return counts;
}

StepPlan OneDecodeRow() {
  return {.items = {{.sequence = SequenceId(1),
                     .first_token = 9,
                     .num_tokens = 1,
                     .end_layer = kLayers,
                     .samples = true}}};
}

TEST(StepMeterTest, AStepLastsFromTheOneBeforeToItsLanding) {
  StepMeter meter({.max_step_ms = 10}, kLayers, kPageBytes);
  meter.BeginStep(kStart);
  meter.CountStep(OneDecodeRow(), kStart + milliseconds(12));
  meter.CountStep(OneDecodeRow(), kStart + milliseconds(20));
  EXPECT_EQ(meter.bounded_steps().without_chunks.num_steps, 2u);
  EXPECT_EQ(meter.bounded_steps().without_chunks.num_over, 1u);
  EXPECT_NE(meter.cost(), StepCost());
}

TEST(StepMeterTest, NothingIsMeasuredThatNothingGoesBy) {
  StepMeter meter({.restore_rates = {}}, kLayers, kPageBytes);
  meter.BeginStep(kStart);
  meter.CountStep(OneDecodeRow(), kStart + milliseconds(12));
  EXPECT_EQ(meter.cost(), StepCost());
  meter.set_may_restore(true);
  meter.CountStep(OneDecodeRow(), kStart + milliseconds(24));
  EXPECT_NE(meter.cost(), StepCost());
}

TEST(StepMeterTest, ReadsOfTheDiskAreCountedOnce) {
  StepMeter meter({.restore_rates = {}}, kLayers, kPageBytes);
  const DiskCounts counts = Moved(0, 4, 2);
  meter.UpdateRates(counts, kStart);
  EXPECT_EQ(meter.decided_rates().disk_bytes_per_second, 2000);
  meter.UpdateRates(counts, kStart + seconds(1));
  EXPECT_EQ(meter.decided_rates().disk_bytes_per_second, 2000);
  meter.UpdateRates(counts, kStart + seconds(90));
  EXPECT_EQ(meter.decided_rates().disk_bytes_per_second, 0);
}

TEST(StepMeterTest, GivenRatesAreNotMeasured) {
  StepMeter meter(
      {.restore_rates = RestoreRates{.link_bytes_per_second = 4000}}, kLayers,
      kPageBytes);
  const auto copy = [](std::span<const TierCopy>) -> Status {
    ADD_FAILURE() << "the link is measured";
    return Ok{};
  };
  ASSERT_TRUE(meter.MeasureLink(copy, 8).ok());
  meter.UpdateRates(Moved(0, 4, 2), kStart);
  EXPECT_EQ(meter.restore_rates().disk_bytes_per_second, 0);
  EXPECT_EQ(meter.LinkMs(2 * kPageBytes), 500);
}

TEST(StepMeterTest, TheLinkIsMeasuredWhereThereIsOne) {
  StepMeter meter({.restore_rates = {}}, kLayers, kPageBytes);
  size_t num_copied = 0;
  const auto copy = [&](std::span<const TierCopy> copies) -> Status {
    num_copied += copies.size();
    return Ok{};
  };
  ASSERT_TRUE(meter.MeasureLink(copy, 0).ok());
  EXPECT_EQ(num_copied, 0u);
  EXPECT_EQ(meter.LinkMs(kPageBytes), 0);
  ASSERT_TRUE(meter.MeasureLink(copy, 5).ok());
  EXPECT_EQ(num_copied, 3 * 5u);
  EXPECT_GT(meter.restore_rates().link_bytes_per_second, 0);
}

TEST(StepMeterTest, CountersHaveWhatSlotsFetchedAndTheDiskMoved) {
  StepMeter meter(
      {.restore_rates = RestoreRates{.link_bytes_per_second = 4000}}, kLayers,
      kPageBytes);
  EngineCounters& counted = meter.counted();
  counted.traffic.host_to_device_bytes = 1000;
  counted.brought = {.fetched_bytes = 700, .near_bytes = 300};
  counted.stall_ms = 5;
  const EngineCounters counters = meter.Counters(Moved(3, 2, 1));
  EXPECT_EQ(counters.traffic.host_to_device_bytes, 2000);
  EXPECT_EQ(counters.traffic.host_to_disk_bytes, 3 * kPageBytes);
  EXPECT_EQ(counters.traffic.disk_to_host_bytes, 2 * kPageBytes);
  EXPECT_EQ(counters.stall_ms, 5 + 500);
}

}  // namespace
}  // namespace winnow
