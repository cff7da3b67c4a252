// The first rows of a request that has given up its pages: what they miss comes
// from where the pages lay, as long as nobody has taken their place.
#include <gtest/gtest.h>

#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// On a model of two layers and KV heads.
class EngineReclaimableTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages,
                                     std::optional<CacheBudget> budget) {
    auto engine = Engine::Create(*backend_, *model_,
                                 {.max_model_len = 320,
                                  .device_kv_bytes = num_pages * PageBytes(),
                                  .host_kv_bytes = 40 * PageBytes(),
                                  .cache_budget = budget,
                                  .batch_invariant = true,
                                  .selectors = {kMeanOfSlots, kFirstWhole}});
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  Request Ask(int which, int num_tokens, int max_tokens,
              int selector = 0) const {
    return TinyRequest(golden_, which, num_tokens, max_tokens, selector);
  }
  // What steps have brought since the last call.
  FetchedPieces BroughtOf(const Engine& engine) {
    FetchedPieces since = engine.counters().brought;
    const FetchedPieces before = std::exchange(before_, since);
    since.misses -= before.misses;
    since.reclaimable -= before.reclaimable;
    since.fetched_bytes -= before.fetched_bytes;
    since.near_bytes -= before.near_bytes;
    return since;
  }
  void ExpectAnswer(const RecordingObserver& got, const Request& request) {
    const std::unique_ptr<Engine> resident = MakeEngine(60, std::nullopt);
    RecordingObserver alone;
    resident->Add(request, &alone).value();
    while (StepOf(*resident)) {
    }
    EXPECT_EQ(got.bits, alone.bits);
    EXPECT_EQ(alone.completion.kv.picks, 0);
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  FetchedPieces before_;
};

// Nobody wants the KV blocks. The seven pages of the prompt leave before the
// second step, whose row is the 231st.
TEST_F(EngineReclaimableTest, FirstRowsFetchNothingOverTheLink) {
  for (const int selector : {0, 1}) {
    const std::unique_ptr<Engine> engine =
        MakeEngine(40, CacheBudget{.tokens = 32});
    before_ = {};
    const Request request = Ask(1, 230, 40, selector);
    RecordingObserver listener;
    const SequenceId id = engine->Add(request, &listener).value();
    ASSERT_TRUE(StepOf(*engine));
    EXPECT_EQ(BroughtOf(*engine).misses, 0);
    int64_t num_misses = 0;
    for (int row = 0; row < kLingerTokens - 1; ++row) {
      ASSERT_TRUE(StepOf(*engine));
      ASSERT_EQ(engine->kv().NumFar(id), 7);
      const FetchedPieces brought = BroughtOf(*engine);
      EXPECT_EQ(brought.reclaimable, brought.misses) << row;
      EXPECT_EQ(brought.fetched_bytes, 0) << row;
      EXPECT_EQ(brought.near_bytes, 0) << row;
      num_misses += brought.misses;
    }
    EXPECT_GT(num_misses, 20);
    // Those behind them do.
    ASSERT_TRUE(StepOf(*engine));
    ASSERT_TRUE(StepOf(*engine));
    (void)BroughtOf(*engine);
    num_misses = 0;
    for (int row = 0; row < 6; ++row) {
      ASSERT_TRUE(StepOf(*engine));
      const FetchedPieces brought = BroughtOf(*engine);
      EXPECT_EQ(brought.reclaimable, 0) << row;
      EXPECT_EQ(brought.fetched_bytes, brought.misses * PageBytes() / 16);
      num_misses += brought.misses;
    }
    EXPECT_GT(num_misses, 0);
    while (StepOf(*engine)) {
    }
    ExpectAnswer(listener, request);
  }
}

// Another request reads its prompt into KV blocks that the pages have left:
// what they held comes from the host.
TEST_F(EngineReclaimableTest, WhoTakesTheRoomEndsIt) {
  const std::unique_ptr<Engine> engine =
      MakeEngine(9, CacheBudget{.tokens = 32});
  const std::vector<Request> requests = {Ask(1, 230, 40), Ask(2, 120, 30)};
  std::vector<RecordingObserver> listeners(2);
  const SequenceId id = engine->Add(requests[0], &listeners[0]).value();
  ASSERT_TRUE(StepOf(*engine));
  engine->Add(requests[1], &listeners[1]).value();
  bool any_reclaimable = false, any_is_gone = false;
  for (int row = 0; row < kLingerTokens - 1; ++row) {
    ASSERT_TRUE(StepOf(*engine));
    const FetchedPieces brought = BroughtOf(*engine);
    any_reclaimable = any_reclaimable || brought.reclaimable > 0;
    any_is_gone = any_is_gone || brought.reclaimable < brought.misses;
    EXPECT_EQ(brought.fetched_bytes,
              (brought.misses - brought.reclaimable) * PageBytes() / 16);
  }
  EXPECT_EQ(engine->kv().NumFar(id), 7);
  EXPECT_EQ(engine->kv().NumWhole(id), 1);
  EXPECT_TRUE(any_reclaimable);
  EXPECT_TRUE(any_is_gone);
  while (StepOf(*engine)) {
  }
  ExpectAnswer(listeners[0], requests[0]);
  ExpectAnswer(listeners[1], requests[1]);
}

}  // namespace
}  // namespace winnow
