// A disk that does not get on: who waits for room waits for it, who runs does
// not.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/faulty_folder.h"
#include "base/passing_folder.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Nothing that is begun ends before it is waited for.
class StalledFolder final : public PassingFolder {
 public:
  using PassingFolder::PassingFolder;
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override {
    return wait ? PassingFolder::Collect(completions, wait) : 0;
  }
};

class EngineSlowDiskTest : public testing::Test {
 protected:
  void SetUp() override { Load(ReadTinyCase("llama")); }
  void Load(TinyCase golden) {
    golden_ = std::move(golden);
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    backend_ = MakeCpuBackend({.num_threads = 1});
    page_bytes_ = kPageTokens * KvBytesPerToken(model_->config(), kF32);
  }

  // Two pages are on their way to the disk, and no more.
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages, bool has_disk = true,
                                     int64_t num_host_pages = 40) {
    EngineOptions options = {.max_model_len = 512,
                             .device_kv_bytes = num_pages * page_bytes_,
                             .host_kv_bytes = num_host_pages * page_bytes_,
                             .disk_staging_bytes = 2 * page_bytes_,
                             .disk_patience = patience_,
                             .batch_invariant = true};
    options.selectors = {"mean:budget=8,block=8,sink=0,recent=8",
                         "mean:budget=24,block=8,sink=0,recent=8"};
    std::unique_ptr<DiskStore> store;
    if (has_disk) {
      const DiskSlotLayout layout(page_bytes_);
      store = DiskStore::Open(std::make_unique<StalledFolder>(disk_.Open()),
                              {.header = {.made_with = {{"model", "tiny"}},
                                          .piece_bytes = page_bytes_},
                               .max_bytes = 64 * layout.slot_bytes,
                               .has_own_thread = false})
                  .value();
    }
    return Engine::Create(*backend_, *model_, options, std::move(store))
        .value();
  }

  Request Ask(int which, int num_tokens, int max_tokens,
              int selector = -1) const {
    return TinyRequest(golden_, which, num_tokens, max_tokens, selector);
  }

  static SequenceId Add(Engine& engine, const Request& request,
                        RecordingObserver& listener) {
    return engine.Add(request, &listener).value();
  }
  static void RunUntil(Engine& engine, const RecordingObserver& listener) {
    while (!listener.finished && StepOf(engine)) {
    }
  }
  // As a server steps: nobody waits for the disk.
  static void RunBesideTheDisk(Engine& engine,
                               const RecordingObserver& listener) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!listener.finished && std::chrono::steady_clock::now() < end) {
      ASSERT_TRUE(engine.TryStep().ok());
      ASSERT_EQ(BrokenInvariants(engine), std::vector<std::string>());
    }
    ASSERT_TRUE(listener.finished) << "it waits for a disk that is silent";
  }
  void ExpectAnswer(const RecordingObserver& got, const Request& request) {
    const std::unique_ptr<Engine> engine = MakeEngine(40, /*has_disk=*/false);
    RecordingObserver alone;
    Add(*engine, request, alone);
    while (StepOf(*engine)) {
    }
    EXPECT_TRUE(got.finished);
    EXPECT_EQ(got.bits, alone.bits);
  }

  static constexpr Dtype kF32 = Dtype::kFloat32;
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
  FaultyDisk disk_{1};
  int64_t page_bytes_ = 0;
  std::chrono::milliseconds patience_ = std::chrono::hours(1);
};

// Six pages wait to be written, of 14; two requests come to need ten.
TEST_F(EngineSlowDiskTest, NobodyGivesWayToWhatIsToBeWritten) {
  const std::unique_ptr<Engine> engine = MakeEngine(14);
  RecordingObserver written;
  Add(*engine, Ask(0, 200, 1), written);
  RunUntil(*engine, written);
  ASSERT_EQ(engine->disk()->num_held_pages(), 6);
  const std::vector<Request> requests = {Ask(1, 40, 110), Ask(2, 40, 110)};
  std::vector<RecordingObserver> listeners(2);
  for (size_t i = 0; i < 2; ++i) Add(*engine, requests[i], listeners[i]);
  RunUntil(*engine, listeners[1]);
  EXPECT_LT(engine->disk()->num_held_pages(), 6);  // their own
  while (StepOf(*engine)) {
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(listeners[i].completion.num_preemptions, 0);
    ExpectAnswer(listeners[i], requests[i]);
  }
}

// What others hold too is written all the same: no page comes free by it.
TEST_F(EngineSlowDiskTest, WhatFreesNothingIsNotGivenUp) {
  const std::unique_ptr<Engine> engine = MakeEngine(11);
  RecordingObserver brief;
  Add(*engine, Ask(0, 20, 1), brief);
  RunUntil(*engine, brief);
  const std::vector<Request> requests = {Ask(1, 200, 60), Ask(2, 20, 110)};
  std::vector<RecordingObserver> listeners(2);
  for (size_t i = 0; i < 2; ++i) Add(*engine, requests[i], listeners[i]);
  ASSERT_TRUE(StepOf(*engine));
  // The first's prompt, which it holds itself.
  bool is_held = true;
  while (!listeners[0].finished) {
    is_held = is_held && engine->disk()->num_held_pages() == 6;
    StepOf(*engine);
  }
  EXPECT_TRUE(is_held);
  while (StepOf(*engine)) {
  }
  EXPECT_GT(listeners[1].completion.num_preemptions, 0) << "nobody lacked room";
  for (size_t i = 0; i < 2; ++i) ExpectAnswer(listeners[i], requests[i]);
}

// Whoever waits for what the disk holds does so beside those that run, which
// keep their pages.
TEST_F(EngineSlowDiskTest, WhoWaitsForItTakesNothingFromWhoRuns) {
  const std::unique_ptr<Engine> engine = MakeEngine(16);
  RecordingObserver written;
  Add(*engine, Ask(0, 200, 1), written);
  RunUntil(*engine, written);
  std::vector<Request> requests = {Ask(1, 230, 26, 0), Ask(2, 90, 3)};
  requests[0].cache_prefix = false;  // The disk holds nothing of it.
  std::vector<RecordingObserver> listeners(2);
  for (size_t i = 0; i < 2; ++i) Add(*engine, requests[i], listeners[i]);
  RunUntil(*engine, listeners[0]);
  EXPECT_EQ(listeners[0].completion.kv.picks, 0) << "it was given slots";
  EXPECT_FALSE(listeners[1].finished);
  while (StepOf(*engine)) {
  }
  for (size_t i = 0; i < 2; ++i) ExpectAnswer(listeners[i], requests[i]);
}

// A prompt larger than the device's pool leaves its pages on the host, where
// they wait to be written and fill it. Those who run then have nowhere to leave
// theirs.
TEST_F(EngineSlowDiskTest, NobodyGivesWayToWhatWaitsOnTheHost) {
  Load(WithLayers(ReadTinyCase("llama"), 8));
  const std::unique_ptr<Engine> engine = MakeEngine(12, /*has_disk=*/true, 11);
  // The disk's staging is taken.
  RecordingObserver first, large;
  Add(*engine, Ask(3, 64, 1), first);
  RunUntil(*engine, first);
  Add(*engine, Ask(4, 371, 20, 1), large);
  RunUntil(*engine, large);
  ASSERT_TRUE(large.finished);
  ASSERT_EQ(engine->kv().num_available_host_pages(), 0);
  std::vector<Request> requests = {Ask(1, 100, 110, 1), Ask(2, 100, 110, 1)};
  std::vector<RecordingObserver> listeners(2);
  for (size_t i = 0; i < 2; ++i) {
    requests[i].cache_prefix = false;
    Add(*engine, requests[i], listeners[i]);
  }
  while (StepOf(*engine)) {
  }
  // One has made room for the other.
  EXPECT_GT(listeners[0].completion.kv.picks + listeners[1].completion.kv.picks,
            0);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(listeners[i].completion.num_preemptions, 0);
    ExpectAnswer(listeners[i], requests[i]);
  }
}

// What it brings after all is nobody's, and harms nobody.
TEST_F(EngineSlowDiskTest, WhoWaitsForASilentOneIsComputed) {
  const std::vector<Request> requests = {Ask(0, 200, 4), Ask(1, 200, 4)};
  {
    const std::unique_ptr<Engine> engine = MakeEngine(40);
    std::vector<RecordingObserver> first(2);
    for (size_t i = 0; i < 2; ++i) Add(*engine, requests[i], first[i]);
    while (StepOf(*engine)) {
    }
    ASSERT_EQ(engine->disk()->store().counts().num_written, 12);
  }
  patience_ = std::chrono::milliseconds(0);
  const std::unique_ptr<Engine> engine = MakeEngine(40);
  std::vector<RecordingObserver> listeners(2);
  Add(*engine, requests[0], listeners[0]);
  RunBesideTheDisk(*engine, listeners[0]);
  EXPECT_TRUE(engine->disk_is_silent());
  // Whoever comes then begins at once.
  const int64_t num_rows = engine->counters().num_rows;
  Add(*engine, requests[1], listeners[1]);
  ASSERT_TRUE(engine->TryStep().ok());
  EXPECT_GT(engine->counters().num_rows, num_rows);
  RunBesideTheDisk(*engine, listeners[1]);
  while (StepOf(*engine)) {
  }
  EXPECT_FALSE(engine->disk_is_silent());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(listeners[i].completion.num_cached_tokens, 0);
    ExpectAnswer(listeners[i], requests[i]);
  }
}

// Six pages of 14 wait to be written; whoever comes needs ten.
TEST_F(EngineSlowDiskTest, ASilentOneHoldsNoRoom) {
  patience_ = std::chrono::milliseconds(0);
  const std::unique_ptr<Engine> engine = MakeEngine(14);
  RecordingObserver written, other;
  Add(*engine, Ask(0, 200, 1), written);
  RunBesideTheDisk(*engine, written);
  Add(*engine, Ask(1, 300, 4), other);
  RunBesideTheDisk(*engine, other);
  ExpectAnswer(other, Ask(1, 300, 4));
}

}  // namespace
}  // namespace winnow
