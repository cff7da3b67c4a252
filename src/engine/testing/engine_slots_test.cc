// Requests whose pages are not all whole: who gives up pages and when, what it
// frees, and answers that are those of requests that are alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Requests by it have two KV blocks of slots where nobody says how many.
const std::string kNarrow = "mean:budget=8,block=8,sink=0,recent=8";
const std::string kWide = "mean:budget=96,block=8,sink=0,recent=8";

class EngineSlotsTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  Result<std::unique_ptr<Engine>> TryEngine(
      int64_t num_pages, int64_t num_host_pages,
      std::optional<CacheBudget> budget = {},
      std::vector<std::string> selectors = {kMeanOfSlots, kNarrow, kWide}) {
    return Engine::Create(*backend_, *model_,
                          {.max_model_len = 320,
                           .device_kv_bytes = num_pages * PageBytes(),
                           .host_kv_bytes = num_host_pages * PageBytes(),
                           .cache_budget = budget,
                           .batch_invariant = true,
                           .selectors = std::move(selectors)});
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages, int64_t num_host_pages,
                                     std::optional<CacheBudget> budget = {}) {
    auto engine = TryEngine(num_pages, num_host_pages, budget);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  Request Ask(int which, int num_tokens, int max_tokens,
              int selector = 0) const {
    return TinyRequest(golden_, which, num_tokens, max_tokens, selector);
  }

  static void ExpectSound(const Engine& engine) {
    EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }
  static std::vector<RecordingObserver> Run(
      Engine& engine, const std::vector<Request>& requests) {
    std::vector<RecordingObserver> listeners(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result<SequenceId> id = engine.Add(requests[i], &listeners[i]);
      CHECK(id.ok(), "{}", id.error().message);
    }
    while (StepOf(engine)) {
    }
    for (const RecordingObserver& listener : listeners)
      EXPECT_TRUE(listener.finished);
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
    return listeners;
  }
  void ExpectAnswers(const std::vector<RecordingObserver>& got,
                     const std::vector<Request>& requests) {
    const std::unique_ptr<Engine> resident = MakeEngine(40, 0);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].bits, Run(*resident, {requests[i]}).front().bits) << i;
    }
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  TinyCase golden_;
  std::unique_ptr<Model> model_;
};

// A page of slots a layer, so one KV block; the prompt has seven pages.
TEST_F(EngineSlotsTest, ACacheBudgetIsAllThatARequestHasBesideItsTail) {
  const std::vector<Request> requests = {Ask(1, 230, 50)};
  const std::unique_ptr<Engine> engine =
      MakeEngine(12, 20, CacheBudget{.tokens = 32});
  RecordingObserver listener;
  const SequenceId id = engine->Add(requests.front(), &listener).value();
  ASSERT_TRUE(StepOf(*engine));
  EXPECT_EQ(engine->kv().NumWhole(id), 8);
  for (int step = 0; step < 48; ++step) {
    ASSERT_TRUE(StepOf(*engine));
    // The tail, and a page that has been filled by the last step.
    ASSERT_LE(engine->kv().NumWhole(id), 2);
    ASSERT_EQ(engine->slots()->NumSlotKvBlocks(id), 1);
    ASSERT_EQ(engine->kv().num_free_pages(), 11 - engine->kv().NumWhole(id));
  }
  while (StepOf(*engine)) {
  }
  ExpectAnswers({listener}, requests);
  const KvCounters& kv = listener.completion.kv;
  EXPECT_EQ(kv.device_bytes, 2 * PageBytes());
  EXPECT_EQ(kv.host_bytes, 8 * PageBytes());
  EXPECT_EQ(kv.picks, kv.hits + kv.misses);
  EXPECT_GT(kv.hits, 0);
  EXPECT_GT(kv.misses, 0);
  // Each miss came over the link, to a slot or not: a quarter of a page, of one
  // of two layers and KV heads. But for those of pages that lay there yet.
  const int64_t num_reclaimable = engine->counters().brought.reclaimable;
  EXPECT_GT(num_reclaimable, 0);
  EXPECT_EQ(kv.fetched_bytes, (kv.misses - num_reclaimable) * PageBytes() / 16);
}

TEST_F(EngineSlotsTest, ALargerBudgetMissesLess) {
  const std::vector<Request> requests = {Ask(1, 230, 60)};
  int64_t num_misses = std::numeric_limits<int64_t>::max();
  for (const double times : {0.5, 1.0, 2.0, 4.0}) {
    const std::unique_ptr<Engine> engine =
        MakeEngine(20, 20, CacheBudget{.tokens = 0, .times = times});
    const std::vector<RecordingObserver> got = Run(*engine, requests);
    ExpectAnswers(got, requests);
    EXPECT_LE(got[0].completion.kv.misses, num_misses) << times;
    num_misses = got[0].completion.kv.misses;
  }
}

// More is picked than there are slots: the rest is read where it lies, which
// crosses the link as well.
TEST_F(EngineSlotsTest, PicksThatFindNoSlotAreReadOnTheHost) {
  const std::vector<Request> requests = {Ask(1, 230, 30, 2), Ask(2, 200, 30)};
  const std::unique_ptr<Engine> engine =
      MakeEngine(24, 20, CacheBudget{.tokens = 8});
  // A list has twelve pieces and more, a layer's frame four slots.
  const std::vector<RecordingObserver> got = Run(*engine, requests);
  ExpectAnswers(got, requests);
  const KvCounters& kv = got[0].completion.kv;
  const KvCounters& other = got[1].completion.kv;
  const int64_t num_over_link =
      kv.misses + other.misses - engine->counters().brought.reclaimable;
  EXPECT_EQ(kv.fetched_bytes + other.fetched_bytes,
            num_over_link * PageBytes() / 16);
  EXPECT_GT(kv.misses, kv.num_decode_rows * 2 * 2 * 2 * 4);
}

// Three that outgrow the pool until no two of them fit it whole.
TEST_F(EngineSlotsTest, PagesAreGivenUpBeforeAnyoneGivesWay) {
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Ask(i, 60, 110));
  for (const bool has_slots : {false, true}) {
    for (Request& request : requests) request.selector = has_slots ? 1 : -1;
    const std::unique_ptr<Engine> engine = MakeEngine(12, 40, std::nullopt);
    Request brief = Ask(3, 20, 1);
    Run(*engine, {brief});
    const std::vector<RecordingObserver> got = Run(*engine, requests);
    ExpectAnswers(got, requests);
    int num_preemptions = 0;
    int64_t num_picks = 0;
    for (const RecordingObserver& each : got) {
      num_preemptions += each.completion.num_preemptions;
      num_picks += each.completion.kv.picks;
    }
    EXPECT_EQ(num_preemptions > 0, !has_slots);
    EXPECT_EQ(num_picks > 0, has_slots);
  }
}

TEST_F(EngineSlotsTest, WhoWaitsComesInWhereOthersCanGiveUpPages) {
  const std::unique_ptr<Engine> engine = MakeEngine(12, 40);
  const std::vector<Request> requests = {Ask(1, 240, 60, 1), Ask(2, 150, 20)};
  std::vector<RecordingObserver> listeners(2);
  const SequenceId first = engine->Add(requests[0], &listeners[0]).value();
  ASSERT_TRUE(StepOf(*engine));
  const SequenceId second = engine->Add(requests[1], &listeners[1]).value();
  EXPECT_EQ(engine->kv().NumWhole(first), 8);
  ASSERT_TRUE(StepOf(*engine));
  EXPECT_TRUE(engine->kv().is_open(second));
  EXPECT_GT(engine->slots()->NumSaved(first), 0);
  while (StepOf(*engine)) {
  }
  ExpectAnswers(listeners, requests);
  EXPECT_EQ(listeners[0].completion.num_preemptions, 0);
  EXPECT_EQ(listeners[1].completion.num_preemptions, 0);
}

// Until the second is done the first has slots; then it is whole, a page of the
// host, and a slot, after the other gone, and misses nothing any more.
TEST_F(EngineSlotsTest, PagesComeBackWhereRoomIsLeft) {
  const std::unique_ptr<Engine> engine = MakeEngine(12, 40);
  const std::vector<Request> requests = {Ask(1, 240, 79, 1), Ask(2, 150, 4)};
  std::vector<RecordingObserver> listeners(2);
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < 2; ++i) {
    ids.push_back(engine->Add(requests[i], &listeners[i]).value());
    ASSERT_TRUE(StepOf(*engine));
  }
  ASSERT_GT(engine->slots()->NumSaved(ids[0]), 0);
  while (!listeners[1].finished) {
    ASSERT_GT(engine->kv().NumFar(ids[0]), 0);
    ASSERT_TRUE(StepOf(*engine));
  }
  // What is copied is less than what it would miss.
  engine->ReclaimIdle(12);
  ASSERT_TRUE(StepOf(*engine));
  EXPECT_EQ(engine->kv().NumFar(ids[0]), 0);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(ids[0]), 0);
  EXPECT_FALSE(engine->slots()->ledger().is_open(ids[0]));
  while (StepOf(*engine)) {
  }
  ExpectAnswers(listeners, requests);
  const KvCounters& kv = listeners[0].completion.kv;
  EXPECT_GE(kv.fetched_bytes, 7 * PageBytes());
  EXPECT_EQ(kv.host_bytes % PageBytes(), 0);
}

// What others would find on the device yet is not copied, so it comes back
// whatever is left to generate.
TEST_F(EngineSlotsTest, WhatIsThereYetComesBackForNothing) {
  for (const bool is_there : {true, false}) {
    const std::unique_ptr<Engine> engine = MakeEngine(20, 40);
    const std::vector<Request> requests = {Ask(1, 240, 12, 1)};
    RecordingObserver listener;
    const SequenceId id = engine->Add(requests[0], &listener).value();
    ASSERT_TRUE(StepOf(*engine));
    engine->Demote(id);
    ASSERT_EQ(engine->kv().NumFar(id), 7);
    if (!is_there) engine->ReclaimIdle(20);
    ASSERT_TRUE(StepOf(*engine));  // What it misses is not known before.
    ASSERT_TRUE(StepOf(*engine));
    EXPECT_EQ(engine->kv().NumFar(id), is_there ? 0 : 7);
    while (StepOf(*engine)) {
    }
    ExpectAnswers({listener}, requests);
    EXPECT_EQ(listener.completion.kv.fetched_bytes >= 7 * PageBytes(), false);
  }
}

// Its last tokens do not pay for a copy of all that it holds.
TEST_F(EngineSlotsTest, PagesStayAwayWhereTheirCopyWouldNotPay) {
  const std::unique_ptr<Engine> engine = MakeEngine(12, 40);
  const std::vector<Request> requests = {Ask(1, 240, 24, 1), Ask(2, 150, 20)};
  std::vector<RecordingObserver> listeners(2);
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < 2; ++i) {
    ids.push_back(engine->Add(requests[i], &listeners[i]).value());
    ASSERT_TRUE(StepOf(*engine));
  }
  while (engine->kv().is_open(ids[0])) {
    ASSERT_GT(engine->kv().NumFar(ids[0]), 0);
    StepOf(*engine);
  }
  while (StepOf(*engine)) {
  }
  ExpectAnswers(listeners, requests);
}

// A cache budget is kept whatever room there is; who is told to may come back.
TEST_F(EngineSlotsTest, PagesComeBackWhenTheyAreToldTo) {
  const std::unique_ptr<Engine> engine = MakeEngine(30, 40);
  const std::vector<Request> requests = {Ask(1, 240, 60, 1)};
  RecordingObserver listener;
  const SequenceId id = engine->Add(requests[0], &listener).value();
  ASSERT_TRUE(StepOf(*engine));
  const auto far_after = [&](int64_t num_pages) {
    engine->Promote(id, num_pages);
    ExpectSound(*engine);
    return engine->kv().NumFar(id);
  };
  engine->Demote(id);
  const int64_t num_far = engine->kv().NumFar(id);
  const int64_t num_slots = engine->slots()->NumSlotKvBlocks(id);
  ASSERT_GT(num_far, num_slots + 2);
  EXPECT_EQ(far_after(2), num_far - 2);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(id), num_slots);
  // As many as there are KV blocks of slots come together.
  EXPECT_EQ(far_after(num_far - 3), num_slots);
  EXPECT_EQ(far_after(num_slots - 1), num_slots);
  EXPECT_EQ(far_after(num_slots), 0);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(id), 0);
  EXPECT_EQ(far_after(9), 0);
  while (StepOf(*engine)) {
    engine->Demote(id);
    StepOf(*engine);
    engine->Promote(id, 3);
  }
  ExpectAnswers({listener}, requests);
}

// Nobody gives up what he would not free, nor what the host has no room for.
TEST_F(EngineSlotsTest, AHostThatIsTooSmallLeavesRequestsWhole) {
  const std::vector<Request> requests = {Ask(1, 230, 20)};
  const std::unique_ptr<Engine> engine =
      MakeEngine(12, 6, CacheBudget{.tokens = 32});
  const std::vector<RecordingObserver> got = Run(*engine, requests);
  ExpectAnswers(got, requests);
  EXPECT_EQ(got[0].completion.kv.picks, 0);
  EXPECT_EQ(got[0].completion.kv.device_bytes, 8 * PageBytes());
}

TEST_F(EngineSlotsTest, WhoWouldFreeNothingStaysWhole) {
  const std::vector<Request> requests = {Ask(1, 60, 20)};
  const std::unique_ptr<Engine> engine =
      MakeEngine(12, 20, CacheBudget{.tokens = 64});
  const std::vector<RecordingObserver> got = Run(*engine, requests);
  EXPECT_EQ(got[0].completion.kv.picks, 0);
  ExpectAnswers(got, requests);
}

// What scores the keys themselves reads K of every token in every step, more
// than its budget would save: it keeps its pages, beside others that do not.
TEST_F(EngineSlotsTest, WhoScoresKeysThemselvesStaysWhole) {
  const std::vector<std::string> selectors = {
      kMeanOfSlots, "oracle:budget=24,block=8,sink=0,recent=8",
      "tidal:budget=24,select_layers=0"};
  const auto make = [&](int64_t num_pages, int64_t num_host_pages,
                        std::optional<CacheBudget> budget) {
    auto engine = TryEngine(num_pages, num_host_pages, budget, selectors);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  };
  const auto engine = make(24, 40, CacheBudget{.tokens = 32});
  const auto resident = make(40, 0, std::nullopt);
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(Ask(i, 150, 40, i));
  std::vector<RecordingObserver> listeners(requests.size());
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < requests.size(); ++i) {
    ids.push_back(engine->Add(requests[i], &listeners[i]).value());
  }
  while (StepOf(*engine)) {
    for (const SequenceId id : ids) engine->Demote(id);
    for (const size_t i : {1u, 2u}) {
      if (engine->kv().is_open(ids[i])) {
        ASSERT_TRUE(engine->kv().far_pages(ids[i]).empty());
      }
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(listeners[i].completion.kv.picks > 0, i == 0);
    EXPECT_EQ(listeners[i].bits, Run(*resident, {requests[i]}).front().bits);
  }
}

// What others hold too stays until they have ended.
TEST_F(EngineSlotsTest, SharedPagesStayWhole) {
  const std::unique_ptr<Engine> engine =
      MakeEngine(30, 30, CacheBudget{.tokens = 8});
  const std::vector<Request> requests = {Ask(1, 230, 20), Ask(1, 230, 60)};
  std::vector<RecordingObserver> listeners(2);
  Prefix prefix = {.tokens = requests[0].prompt, .max_length = 290};
  prefix.tokens.resize(200);
  RecordingObserver holder;
  const SequenceId held = engine->AddPrefix(prefix, &holder).value();
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < 2; ++i) {
    Request request = requests[i];
    request.prefix = held;
    ids.push_back(engine->Add(request, &listeners[i]).value());
  }
  engine->Release(held);
  bool any = false;
  while (StepOf(*engine)) {
    if (engine->kv().is_open(ids[1])) {
      const auto far = engine->kv().far_pages(ids[1]);
      any = any || !far.empty();
      ASSERT_EQ(std::ranges::count(far.first(std::min<size_t>(far.size(), 6)),
                                   kNoKvBlock),
                far.empty() ? 0 : 6);
    }
  }
  EXPECT_TRUE(any);
  EXPECT_EQ(listeners[0].bits, (std::vector(listeners[1].bits.begin(),
                                            listeners[1].bits.begin() + 20)));
  EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
}

// The tail that the index forgot is read again; the rest was found.
TEST_F(EngineSlotsTest, OthersBeginWithPagesThatWereGivenUp) {
  const std::vector<Request> requests = {Ask(1, 230, 20)};
  const std::unique_ptr<Engine> engine =
      MakeEngine(20, 30, CacheBudget{.tokens = 32});
  RecordingObserver first;
  engine->Add(requests[0], &first).value();
  for (int step = 0; step < 4; ++step) StepOf(*engine);
  RecordingObserver second;
  engine->Add(requests[0], &second).value();
  while (StepOf(*engine)) {
  }
  EXPECT_EQ(second.completion.num_cached_tokens, 224);
  ExpectAnswers({first}, requests);
  ExpectAnswers({second}, requests);
}

TEST_F(EngineSlotsTest, WhoGivesWayOrIsCancelledGivesBackItsSlots) {
  const std::unique_ptr<Engine> engine =
      MakeEngine(20, 30, CacheBudget{.tokens = 32});
  const std::vector<Request> requests = {Ask(1, 230, 40)};
  std::vector<RecordingObserver> listeners(2);
  const SequenceId id = engine->Add(requests[0], &listeners[0]).value();
  const SequenceId other = engine->Add(Ask(2, 200, 40), &listeners[1]).value();
  for (int step = 0; step < 5; ++step) StepOf(*engine);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(id), 1);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(other), 1);
  engine->Preempt(id);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(id), 0);
  ExpectSound(*engine);
  for (int step = 0; step < 3; ++step) StepOf(*engine);
  engine->Cancel(other);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(other), 0);
  ExpectSound(*engine);
  while (StepOf(*engine)) {
  }
  ExpectAnswers({listeners[0]}, requests);
  EXPECT_EQ(listeners[0].completion.num_preemptions, 1);
  EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
}

TEST_F(EngineSlotsTest, AThousandComeAndGoAndNothingIsLost) {
  const std::unique_ptr<Engine> engine =
      MakeEngine(9, 12, CacheBudget{.tokens = 16});
  std::mt19937 random(3);
  const auto below = [&](uint32_t end) {
    return static_cast<int>(random() % end);
  };
  std::vector<RecordingObserver> listeners(1000);
  std::vector<SequenceId> ids;
  for (RecordingObserver& listener : listeners) {
    Request request = Ask(below(3), 1 + below(90),
                          below(4) == 0 ? 40 + below(50) : 1 + below(3));
    request.selector = below(5) == 0 ? -1 : 0;
    ids.push_back(engine->Add(std::move(request), &listener).value());
    if (below(10) == 0) {
      engine->Cancel(ids[ids.size() - 1 -
                         static_cast<size_t>(below(std::min<uint32_t>(
                             9, static_cast<uint32_t>(ids.size()))))]);
    }
    for (int i = below(12); i > 0; --i) StepOf(*engine);
  }
  while (StepOf(*engine)) {
  }
  int num_with_slots = 0;
  for (const RecordingObserver& listener : listeners) {
    ASSERT_TRUE(listener.finished);
    num_with_slots += listener.completion.kv.picks > 0;
  }
  EXPECT_GT(num_with_slots, 100);
  const KvSnapshot kv = engine->kv().Snapshot();
  EXPECT_EQ(HeldByNobody(*engine), std::vector<std::string>());
  EXPECT_EQ(std::ssize(kv.indexed), kv.device.num_in_use);
  EXPECT_EQ(std::ssize(kv.indexed_on_host), kv.host.num_in_use);
}

TEST_F(EngineSlotsTest, ACacheBudgetNeedsAHostAndASelectorThatReadsAPart) {
  const CacheBudget budget = {.tokens = 32};
  const auto error_of = [&](int64_t num_host_pages,
                            std::vector<std::string> selectors) {
    return TryEngine(12, num_host_pages, budget, std::move(selectors))
        .error()
        .message;
  };
  EXPECT_EQ(error_of(0, {kMeanOfSlots}),
            "cache-budget needs host-kv, where pages lie that are not whole on "
            "the device, and there is none");
  EXPECT_EQ(error_of(9, {}),
            "cache-budget needs a selector that reads a part by summaries, has "
            "none");
  EXPECT_EQ(error_of(9, {"dense", "oracle:budget=32"}),
            "cache-budget needs a selector that reads a part by summaries, has "
            "dense oracle:budget=32");
  EXPECT_TRUE(TryEngine(12, 9, budget, {"dense", kMeanOfSlots}).ok());
}

}  // namespace
}  // namespace winnow
