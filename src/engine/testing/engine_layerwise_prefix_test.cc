// Requests larger than the device's pool that begin with pages of others, on
// the device, the host or a disk, and leave theirs there: with the answers of a
// run in which everything is resident.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "base/faulty_folder.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

const std::vector<std::string> kLayerwisePrefixSelectors = {
    "mean:budget=24,block=8,sink=0,recent=8",
    "snapkv:budget=20,window=6,kernel=3",
    "window:sink=8,recent=24",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=60",
    "moba:block=32,budget=32",
    "clusterkv:budget=24,segment=32,cluster=4,sink=4,dense_layers=none",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8",
    "mean:budget=16,block=16,recent=8,dense_layers=0"};

class EngineLayerwisePrefixTest : public testing::Test {
 protected:
  static constexpr int kLayers = 8, kDevicePages = 6, kHostPages = 14;
  static constexpr int kMean = 0, kFixed = 1;

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages, int64_t num_host_pages,
                                     std::unique_ptr<DiskStore> disk = {}) {
    auto engine = Engine::Create(*backend_, *model_,
                                 {.max_model_len = 512,
                                  .max_num_batched_tokens = max_rows_,
                                  .device_kv_bytes = num_pages * PageBytes(),
                                  .host_kv_bytes = num_host_pages * PageBytes(),
                                  .cache_budget = CacheBudget{.tokens = 32},
                                  .batch_invariant = true,
                                  .selectors = kLayerwisePrefixSelectors},
                                 std::move(disk));
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  std::unique_ptr<Engine> MakeSmall() {
    return MakeEngine(kDevicePages, kHostPages);
  }
  // As the next process would have it.
  std::unique_ptr<Engine> Restart() {
    const DiskSlotLayout layout(PageBytes());
    auto store = DiskStore::Open(disk_.Open(),
                                 {.header = {.made_with = {{"model", "tiny"}},
                                             .piece_bytes = PageBytes()},
                                  .max_bytes = 64 * layout.slot_bytes,
                                  .has_own_thread = false});
    CHECK(store.ok(), "{}", store.error().message);
    return MakeEngine(kDevicePages, kHostPages, std::move(store).value());
  }
  // `num_shared` tokens of one text, then others.
  Request Ask(int num_shared, int num_tokens, int selector = kMean) const {
    Request request;
    for (int i = 0; i < num_tokens; ++i) {
      request.prompt.push_back(TinyToken(golden_, i < num_shared ? 5 : 11, i));
    }
    request.max_tokens = 20;
    request.num_question_tokens = 5;
    request.sampling.temperature = 0;
    request.selector = selector;
    return request;
  }
  static RecordingObserver Run(Engine& engine, const Request& request) {
    RecordingObserver listener;
    const Result<SequenceId> id = engine.Add(request, &listener);
    CHECK(id.ok(), "{}", id.error().message);
    while (StepOf(engine)) {
    }
    EXPECT_TRUE(listener.finished);
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
    EXPECT_EQ(engine.kv().num_available_host_pages(),
              engine.kv().num_host_pages());
    return listener;
  }
  void ExpectAnswer(const RecordingObserver& got, const Request& request,
                    int num_cached) {
    const std::unique_ptr<Engine> resident = MakeEngine(40, 1);
    EXPECT_EQ(got.bits, Run(*resident, request).bits);
    EXPECT_EQ(got.completion.num_cached_tokens, num_cached);
  }

  const TinyCase golden_ = WithLayers(ReadTinyCase("llama"), kLayers);
  const std::unique_ptr<Model> model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  FaultyDisk disk_{1};
  int max_rows_ = 64;
};

// All its pages that may lie there, or those of its first chunks.
TEST_F(EngineLayerwisePrefixTest, ItBeginsWithPagesOfTheHost) {
  for (int selector = 0;
       selector < static_cast<int>(kLayerwisePrefixSelectors.size());
       ++selector) {
    for (const int max_rows : {40, 512}) {
      for (const int num_shared : {301, 150}) {
        SCOPED_TRACE(fmt::format("selector {} rows {} shared {}", selector,
                                 max_rows, num_shared));
        max_rows_ = max_rows;
        const auto engine = MakeSmall();
        Run(*engine, Ask(301, 301, selector));
        const Request next = Ask(num_shared, 301, selector);
        const RecordingObserver got = Run(*engine, next);
        const int first_own = num_shared == 301 ? 288 : 128;
        const int left = got.completion.num_cached_tokens;
        // Where summaries are of whole segments the last pages stay near.
        const int expected = selector == kFixed  ? 0
                             : num_shared == 301 ? std::min(left, first_own)
                                                 : first_own;
        ExpectAnswer(got, next, expected);
        if (selector != kFixed) {
          EXPECT_GE(left, 128);
        }
      }
    }
  }
}

// And with those of the device, which are then on the host too.
TEST_F(EngineLayerwisePrefixTest, ItBeginsWithPagesOfTheDevice) {
  const auto engine = MakeSmall();
  Run(*engine, Ask(100, 101));
  const Request next = Ask(100, 301);
  const RecordingObserver got = Run(*engine, next);
  ExpectAnswer(got, next, 96);
  EXPECT_GE(got.completion.kv.fetched_bytes, 3 * PageBytes());
}

// Another goes on with them meanwhile.
TEST_F(EngineLayerwisePrefixTest, ItSharesPagesThatAreInUse) {
  const auto engine = MakeEngine(11, kHostPages);
  Run(*engine, Ask(100, 101));
  std::vector<Request> requests = {Ask(100, 110), Ask(100, 340)};
  requests[0].max_tokens = 60;
  std::vector<RecordingObserver> listeners(2);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
  }
  int num_together = 0;
  while (StepOf(*engine)) num_together += engine->kv().num_sequences() == 2;
  EXPECT_GT(num_together, 20);
  for (size_t i = 0; i < 2; ++i) {
    ExpectAnswer(listeners[i], requests[i], 96);
  }
}

// One that is read goes on while others begin with its pages.
TEST_F(EngineLayerwisePrefixTest, ItIsSharedAsSoonAsItIsRead) {
  const auto engine = MakeEngine(11, 2 * kHostPages);
  const std::vector<Request> requests = {Ask(340, 340), Ask(330, 345)};
  std::vector<RecordingObserver> listeners(2);
  ASSERT_TRUE(engine->Add(requests[0], &listeners[0]).ok());
  while (listeners[0].bits.empty()) ASSERT_TRUE(StepOf(*engine));
  ASSERT_TRUE(engine->Add(requests[1], &listeners[1]).ok());
  int num_together = 0;
  while (StepOf(*engine)) num_together += engine->kv().num_sequences() == 2;
  EXPECT_GT(num_together, 5);
  ExpectAnswer(listeners[0], requests[0], 0);
  ExpectAnswer(listeners[1], requests[1], 320);
}

TEST_F(EngineLayerwisePrefixTest, WhatLiesOnADiskServesTheNextProcess) {
  const Request request = Ask(301, 301);
  const auto first = Restart();
  ExpectAnswer(Run(*first, request), request, 0);
  EXPECT_GE(first->disk()->store().counts().num_written, 9);
  const auto second = Restart();
  const RecordingObserver got = Run(*second, request);
  ExpectAnswer(got, request, 288);
  EXPECT_EQ(second->disk()->store().counts().num_read, 9);
  // What is still on the host is not read again.
  ExpectAnswer(Run(*second, request), request, 288);
  EXPECT_EQ(second->disk()->store().counts().num_read, 9);
}

// What is behind the first that cannot be read is computed.
TEST_F(EngineLayerwisePrefixTest, ADiskThatFailsCostsTimeAlone) {
  const Request request = Ask(301, 301);
  Run(*Restart(), request);
  disk_.faults() = {.read_error = 0.3};
  for (int life = 0; life < 6; ++life) {
    disk_.faults() = {};
    const auto engine = Restart();
    disk_.faults() = {.read_error = 0.3};
    const RecordingObserver got = Run(*engine, request);
    ExpectAnswer(got, request, got.completion.num_cached_tokens);
  }
}

TEST_F(EngineLayerwisePrefixTest, WhoIsCancelledLeavesWhatWasThere) {
  for (const int num_steps : {1, 3, 11, 45}) {
    const auto engine = MakeSmall();
    Run(*engine, Ask(301, 301));
    RecordingObserver listener;
    const SequenceId id = engine->Add(Ask(150, 301), &listener).value();
    for (int step = 0; step < num_steps; ++step) StepOf(*engine);
    engine->Cancel(id);
    const Request again = Ask(301, 301);
    const RecordingObserver got = Run(*engine, again);
    ExpectAnswer(got, again, got.completion.num_cached_tokens);
    EXPECT_GE(got.completion.num_cached_tokens, 128);
  }
}

}  // namespace
}  // namespace winnow
