// Layers that are read whole, of requests whose pages are not: their layer
// blocks stay near, so that a row brings none of them over the link.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Of two layers.
const std::string kSecondWhole = kMeanOfSlots + ",dense_layers=1";

class EngineNearTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages, int64_t num_host_pages,
                                     std::optional<CacheBudget> budget = {}) {
    auto engine = Engine::Create(
        *backend_, *model_,
        {.max_model_len = 320,
         .device_kv_bytes = num_pages * PageBytes(),
         .host_kv_bytes = num_host_pages * PageBytes(),
         .cache_budget = budget,
         .batch_invariant = true,
         .selectors = {kFirstWhole, kSecondWhole, kMeanOfSlots}});
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  Request Ask(int which, int num_tokens, int max_tokens,
              int selector = 0) const {
    return TinyRequest(golden_, which, num_tokens, max_tokens, selector);
  }
  void ExpectAnswers(const std::vector<RecordingObserver>& got,
                     const std::vector<Request>& requests) {
    const std::unique_ptr<Engine> resident = MakeEngine(40, 0);
    for (size_t i = 0; i < got.size(); ++i) {
      RecordingObserver alone;
      resident->Add(requests[i], &alone).value();
      while (StepOf(*resident)) {
      }
      EXPECT_EQ(got[i].bits, alone.bits) << i;
    }
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  TinyCase golden_;
  std::unique_ptr<Model> model_;
};

// Seven pages leave, a page of slots of the other layer and seven layer blocks
// are five KV blocks. One was free, four are what pages lay in: half of these
// comes from the host, once, and nothing of the three that stay reclaimable.
TEST_F(EngineNearTest, WhatIsReadWholeCrossesTheLinkOnce) {
  const std::unique_ptr<Engine> engine =
      MakeEngine(9, 20, CacheBudget{.tokens = 32});
  const std::vector<Request> requests = {Ask(1, 230, 20)};
  RecordingObserver listener;
  const SequenceId id = engine->Add(requests[0], &listener).value();
  ASSERT_TRUE(StepOf(*engine));
  int64_t before = 0;
  for (int step = 0; step < 18; ++step) {
    ASSERT_TRUE(StepOf(*engine));
    ASSERT_EQ(engine->kv().NumFar(id), 7);
    // A page of slots, of two layers' layer blocks one in each.
    ASSERT_EQ(engine->slots()->NumSlotKvBlocks(id), 1 + 4);
    const FetchedPieces brought = engine->counters().brought;
    const int64_t missed = brought.misses * PageBytes() / 16;
    EXPECT_EQ(brought.fetched_bytes,
              missed - brought.reclaimable * PageBytes() / 16);
    EXPECT_EQ(brought.near_bytes, 4 * PageBytes() / 2);
    // Of the layer that chooses: four pieces a head's list, and not all of
    // 28 pieces.
    EXPECT_LE(missed - before, 2 * 5 * PageBytes() / 16);
    before = missed;
  }
  while (StepOf(*engine)) {
  }
  ExpectAnswers({listener}, requests);
  EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
}

// Two KV blocks of layer blocks do for four pages of a layer: who would free
// nothing by a page keeps it.
TEST_F(EngineNearTest, PagesThatAreGeneratedFollowInTurn) {
  const std::unique_ptr<Engine> engine =
      MakeEngine(20, 20, CacheBudget{.tokens = 32});
  const std::vector<Request> requests = {Ask(1, 150, 150)};
  RecordingObserver listener;
  const SequenceId id = engine->Add(requests[0], &listener).value();
  int64_t most_far = 0;
  while (StepOf(*engine)) {
    if (!engine->kv().is_open(id) || engine->kv().NumFar(id) == 0) continue;
    most_far = std::max(most_far, engine->kv().NumFar(id));
    EXPECT_EQ(engine->slots()->NumSlotKvBlocks(id),
              1 + (engine->kv().NumFar(id) + 1) / 2);
    EXPECT_LE(engine->kv().NumWhole(id), 3);
  }
  EXPECT_GE(most_far, 8);
  ExpectAnswers({listener}, requests);
}

// Layers that one reads whole another chooses in, and a third chooses in all.
TEST_F(EngineNearTest, EachHasItsOwnLayers) {
  const std::unique_ptr<Engine> engine =
      MakeEngine(30, 40, CacheBudget{.tokens = 32});
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Ask(i, 200 + 20 * i, 40, i));
  std::vector<RecordingObserver> listeners(requests.size());
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < requests.size(); ++i) {
    ids.push_back(engine->Add(requests[i], &listeners[i]).value());
  }
  int num_together = 0;
  while (StepOf(*engine)) {
    bool all = true;
    for (const SequenceId id : ids) {
      all = all && engine->kv().is_open(id) && engine->kv().NumFar(id) > 0;
    }
    num_together += all;
  }
  EXPECT_GT(num_together, 20);
  ExpectAnswers(listeners, requests);
}

// What came back gives up its layer blocks' places, and has them filled anew.
TEST_F(EngineNearTest, PagesComeAndGo) {
  const std::unique_ptr<Engine> engine = MakeEngine(30, 40);
  const std::vector<Request> requests = {Ask(1, 240, 60)};
  RecordingObserver listener;
  const SequenceId id = engine->Add(requests[0], &listener).value();
  ASSERT_TRUE(StepOf(*engine));
  for (int round = 0; StepOf(*engine); ++round) {
    if (!engine->kv().is_open(id)) break;
    if (round % 3 == 0) engine->Demote(id);
    if (round % 3 == 1) engine->Promote(id, 1 + round % 2);
    if (round % 7 == 6) engine->Promote(id, 40);
    ASSERT_EQ(BrokenInvariants(*engine), std::vector<std::string>());
  }
  while (StepOf(*engine)) {
  }
  ExpectAnswers({listener}, requests);
}

}  // namespace
}  // namespace winnow
