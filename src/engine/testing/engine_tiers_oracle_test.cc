// The all-resident oracle: whatever the pools' sizes, whoever is preempted,
// goes on with slots or ends while a step ahead has a row of it, and whatever
// leaves the device or befalls the disk in the middle, every request's tokens
// and logits are those of a run in which everything is resident and nothing is
// shared.
//
// 200 workloads, or as many as the environment's WINNOW_TIER_WORKLOADS says, at
// least 200; half as many of some suites. Each suite has ten parts of other
// seeds, so GTEST_TOTAL_SHARDS deals them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "engine/run/drawn_logits.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/late_backend.h"
#include "engine/testing/tier_run.h"

namespace winnow {
namespace {

constexpr int kNumParts = 10;

int WorkloadsOfPart() {
  const char* text = std::getenv("WINNOW_TIER_WORKLOADS");
  return (text == nullptr ? 200 : std::atoi(text)) / kNumParts;
}

class EngineTiersOracleTest : public testing::TestWithParam<int> {
 protected:
  // One workload of a part, and how eager its device is (LateBackend); none:
  // it runs ops at once.
  struct Asked {
    TierWorkloadKind kind = {};
    std::optional<double> eagerness = {};
  };

  void RunPart(int count, const std::function<Asked(int)>& asked) {
    for (int i = 0; i < count && !HasFailure(); ++i) {
      RunSeed(static_cast<uint64_t>(GetParam() * count + i), asked(i));
      if ((i + 1) % 100 > 0) continue;
      fmt::print("{} of {} workloads\n", i + 1, count);
      std::fflush(stdout);
    }
  }

  std::unique_ptr<Backend> MakeHooked() {
    auto hooked =
        std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 1}));
    hooked->pre_sample = [this](const SampleArgs& args) { logits_.Take(args); };
    return hooked;
  }

  void RunSeed(uint64_t seed, const Asked& asked) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const TierWorkload workload = DrawTierWorkload(models_, asked.kind, seed);
    logits_ = DrawnLogits();
    const std::vector<TierListener> expected =
        RunResident(*MakeHooked(), models_, workload);
    if (!asked.eagerness) {
      const std::unique_ptr<Backend> backend = MakeHooked();
      PressedRun run(*backend, models_, workload, totals_);
      return RunLives(seed, workload, run, expected);
    }
    AheadCounter ahead(std::make_unique<LateBackend>(
        MakeHooked(), static_cast<uint32_t>(seed), *asked.eagerness));
    PressedRun run(ahead, models_, workload, totals_);
    run.CountAhead(ahead);
    RunLives(seed, workload, run, expected);
    num_ahead_ += ahead.num_ahead;
  }

  // One engine, or one after the other on a disk.
  void RunLives(uint64_t seed, const TierWorkload& workload, PressedRun& run,
                const std::vector<TierListener>& expected) {
    FaultyDisk disk(static_cast<uint32_t>(seed));
    const int num_lives = workload.num_disk_slots == 0      ? 1
                          : EndsProcesses(workload.trouble) ? 4
                                                            : 2;
    for (int i = 0; i < num_lives && !HasFailure(); ++i) {
      SCOPED_TRACE(fmt::format("life {}", i));
      logits_.Compare();
      const std::vector<TierListener> got =
          run.Run({.seed = seed * 5 + static_cast<uint64_t>(i) + 1,
                   .disk = workload.num_disk_slots > 0 ? &disk : nullptr,
                   .is_first = i == 0,
                   .may_die = i + 1 < num_lives});
      if (workload.trouble == DiskTrouble::kFlippedBits) disk.FlipBit();
      if (run.died() && workload.trouble == DiskTrouble::kPowerCuts) {
        disk.LosePower();
      }
      ExpectAnswers(workload, run.died(), got, expected);
    }
  }

  void ExpectAnswers(const TierWorkload& workload, bool died,
                     const std::vector<TierListener>& got,
                     const std::vector<TierListener>& expected) {
    for (size_t i = 0; i < got.size() && !HasFatalFailure(); ++i) {
      const TierRequest& asked = workload.requests[i];
      SCOPED_TRACE(fmt::format("request {} selector {} on prefix {}", i,
                               asked.request.selector, asked.on_prefix));
      if (died && !got[i].finished) continue;  // It had not been asked.
      ASSERT_NE(got[i].finished, got[i].refused);
      if (got[i].refused) continue;
      Count(workload, asked, got[i]);
      ExpectAnswer(asked, got[i], expected[i]);
    }
  }

  void ExpectAnswer(const TierRequest& asked, const TierListener& got,
                    const TierListener& expected) {
    EXPECT_GE(logits_.num_compared(asked.request.sampling.seed),
              static_cast<uint64_t>(got.num_tokens));
    if (got.completion.reason == FinishReason::kCancelled) {
      ASSERT_LE(got.bits.size(), expected.bits.size());
      ASSERT_TRUE(
          std::equal(got.bits.begin(), got.bits.end(), expected.bits.begin()));
      return;
    }
    ASSERT_EQ(got.bits, expected.bits);
    ASSERT_EQ(got.completion.reason, expected.completion.reason);
    const KvCounters &kv = got.completion.kv,
                     &expected_kv = expected.completion.kv;
    ASSERT_EQ(kv.num_decode_rows, expected_kv.num_decode_rows);
    ASSERT_FLOAT_EQ(static_cast<float>(kv.tokens_read_share),
                    static_cast<float>(expected_kv.tokens_read_share));
  }

  void Count(const TierWorkload& workload, const TierRequest& asked,
             const TierListener& got) {
    const Completion& completion = got.completion;
    const bool was_cached = completion.num_cached_tokens > 0;
    totals_.num_preemptions += completion.num_preemptions;
    totals_.num_fetched += completion.kv.fetched_bytes > 0;
    totals_.num_cached += was_cached;
    totals_.num_forks += asked.on_prefix;
    totals_.num_cancelled += completion.reason == FinishReason::kCancelled;
    totals_.num_stopped += completion.reason == FinishReason::kStop;
    totals_.num_rolled_back += got.was_ahead;
    const int64_t num_life_pages =
        PagesFor(completion.num_prompt_tokens + asked.request.max_tokens - 1);
    totals_.num_layerwise_cached +=
        was_cached && num_life_pages * models_.PageBytes(workload.is_deep) >
                          workload.options.device_kv_bytes;
    totals_.num_from_disk_with_slots +=
        workload.num_disk_slots > 0 && completion.kv.picks > 0 && was_cached;
    CountSlots(asked, completion);
  }

  void CountSlots(const TierRequest& asked, const Completion& completion) {
    const KvCounters& kv = completion.kv;
    EXPECT_EQ(kv.picks, kv.hits + kv.misses);
    EXPECT_LE(kv.hints_used, kv.hints);
    totals_.num_hints += kv.hints;
    if (kv.picks == 0) return;
    totals_.selectors_with_slots.insert(asked.request.selector);
    ++totals_.num_with_slots;
    totals_.num_forks_with_slots += asked.on_prefix;
    totals_.num_missing += kv.misses > 0;
    totals_.num_back += completion.num_preemptions > 0;
  }

  const TierModels models_;
  DrawnLogits logits_;
  TierTotals totals_;
  int num_ahead_ = 0;  // steps
};

TEST_P(EngineTiersOracleTest, AnswersAreThoseOfTheResident) {
  const int count = WorkloadsOfPart();
  RunPart(count, [](int) { return Asked(); });
  // Else nothing was shown.
  EXPECT_GT(totals_.num_forced, count);
  EXPECT_GT(totals_.num_preemptions, totals_.num_forced);
  EXPECT_GT(totals_.num_fetched, count / 10);
  EXPECT_GT(totals_.num_cached, count / 10);
  EXPECT_GT(totals_.num_forks, 0);
  EXPECT_GT(totals_.num_with_slots, count / 2);
  EXPECT_GT(totals_.selectors_with_slots.size(), 6);
  EXPECT_GT(totals_.num_forks_with_slots, 0);
  EXPECT_GT(totals_.num_hints, 0);
  EXPECT_GT(totals_.num_moved_frames, 0);
  EXPECT_GT(totals_.num_missing, count / 2);
  EXPECT_GT(totals_.num_back, 0);
  EXPECT_GT(totals_.num_brought_back, count);
  EXPECT_GT(totals_.num_whole_again, count / 2);
  EXPECT_GT(totals_.num_from_disk, 0);
  EXPECT_GT(totals_.num_from_disk_with_slots, 0);
  EXPECT_GT(totals_.num_stopped, count / 2);
}

// The same where some are larger than the device's pool.
TEST_P(EngineTiersOracleTest, AnswersOfTheLargeAreThoseOfTheResident) {
  const int count = std::max(8, WorkloadsOfPart() / 2);
  RunPart(count, [](int) { return Asked{.kind = {.is_deep = true}}; });
  EXPECT_GT(totals_.num_layerwise, count / 2);
  EXPECT_GT(totals_.num_layerwise_with_others, 0);
  EXPECT_GT(totals_.num_layerwise_cached, 0);
  EXPECT_GT(totals_.num_layerwise, totals_.num_refused);
  EXPECT_GT(totals_.num_with_slots, count / 2);
  EXPECT_GT(totals_.num_missing, count / 2);
}

// The same on a disk that fails, in each way that there is in turn: also in
// the middle of a write, and with the process.
TEST_P(EngineTiersOracleTest, AnswersOnATroubledDiskAreThoseOfTheResident) {
  constexpr int kNumKinds = kNumDiskTroubles - 1;
  const int count = std::max(kNumKinds, WorkloadsOfPart() / 2);
  RunPart(count, [](int i) {
    return Asked{
        .kind = {.is_deep = i % 5 == 4,
                 .trouble = static_cast<DiskTrouble>(1 + i % kNumKinds)}};
  });
  EXPECT_GT(totals_.num_failed_reads, 0);
  EXPECT_GT(totals_.num_failed_writes, 0);
  EXPECT_GT(totals_.num_from_disk, 0);
  EXPECT_GT(totals_.num_dead, 0);
}

// Both on a device that runs its ops as late as it may, or some of them at
// any time: steps are launched ahead where there is no disk, and with one, or
// layer by layer, copies wait behind steps. Who ends with a row in a step ahead
// is rolled back (KvCache::Truncate): what that row wrote is nobody's.
TEST_P(EngineTiersOracleTest, AnswersOfALateDeviceAreThoseOfTheResident) {
  const int count = WorkloadsOfPart();
  RunPart(count, [](int i) {
    Asked asked = {.kind = {.is_deep = i % 2 != 0, .is_whole = i % 4 == 2},
                   .eagerness = i % 8 < 4 ? 0 : 0.02};
    if (i % 4 == 3) asked.kind.trouble = DiskTrouble::kNone;
    return asked;
  });
  EXPECT_GT(num_ahead_, count);
  EXPECT_GT(totals_.num_rolled_back, 0);
  EXPECT_GT(totals_.num_layerwise, 0);
  EXPECT_GT(totals_.num_with_slots, count / 2);
  EXPECT_GT(totals_.num_preemptions, count);
  EXPECT_GT(totals_.num_from_disk, 0);
}

INSTANTIATE_TEST_SUITE_P(Parts, EngineTiersOracleTest,
                         testing::Range(0, kNumParts));

// A kind of selector that is added is asked for here as well.
TEST(TierWorkloadTest, HasEveryKindOfSelector) {
  for (const SelectorKind* kind : AllSelectors()) {
    if (kind->name == "dense") continue;
    EXPECT_TRUE(std::ranges::any_of(kTierSelectors, [kind](
                                                        std::string_view spec) {
      return spec.starts_with(std::string(kind->name) + ":");
    })) << kind->name;
  }
}

}  // namespace
}  // namespace winnow
