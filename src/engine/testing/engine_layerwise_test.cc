// Requests larger than the device's pool: read layer by layer, then from slots,
// with the answers of a run in which everything is resident.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "base/size_text.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

const std::vector<std::string> kLayerwiseSelectors = {
    "window:sink=8,recent=24",
    "mean:budget=24,block=8,sink=0,recent=8",
    "oracle:budget=24,block=8,sink=0,recent=8",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=60",
    "moba:block=32,budget=32",
    "snapkv:budget=20,window=6,kernel=3",
    "shadowkv:budget=16,block=4,outliers=12,recent=4",
    "clusterkv:budget=24,segment=32,cluster=4,sink=4,dense_layers=none",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8",
    "mean:budget=16,block=16,recent=8,dense_layers=0"};

class EngineLayerwiseTest : public testing::Test {
 protected:
  // Rows of 256 bytes, layer blocks of 8 KiB: a page's rows are a layer block,
  // so a prompt that is read layer by layer takes a quarter of its pages' KV
  // blocks.
  static constexpr int kLayers = 8;
  static constexpr int kWindow = 0, kMean = 1, kOracle = 2, kFirstDense = 9;

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages, int64_t num_host_pages,
                                     int max_rows = 2048,
                                     std::optional<CacheBudget> budget = {}) {
    auto engine = Engine::Create(*backend_, *model_,
                                 {.max_model_len = 512,
                                  .max_num_batched_tokens = max_rows,
                                  .device_kv_bytes = num_pages * PageBytes(),
                                  .host_kv_bytes = num_host_pages * PageBytes(),
                                  .cache_budget = budget,
                                  .batch_invariant = true,
                                  .selectors = kLayerwiseSelectors,
                                  .max_watched_requests = 1,
                                  .max_scored_rows = 64});
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  Request Ask(int which, int num_tokens, int max_tokens, int selector) const {
    return TinyRequest(golden_, which, num_tokens, max_tokens, selector);
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
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
    return listeners;
  }
  void ExpectAnswers(const std::vector<RecordingObserver>& got,
                     const std::vector<Request>& requests) {
    for (size_t i = 0; i < got.size(); ++i) {
      const std::unique_ptr<Engine> resident = MakeEngine(40, 0);
      const RecordingObserver alone = Run(*resident, {requests[i]}).front();
      EXPECT_TRUE(got[i].finished) << i;
      EXPECT_EQ(got[i].bits, alone.bits) << i;
      EXPECT_FLOAT_EQ(
          static_cast<float>(got[i].completion.kv.tokens_read_share),
          static_cast<float>(alone.completion.kv.tokens_read_share))
          << i;
      EXPECT_EQ(got[i].completion.kv.num_decode_rows,
                alone.completion.kv.num_decode_rows)
          << i;
    }
  }
  std::string ErrorOf(Engine& engine, Request request) {
    RecordingObserver listener;
    const auto id = engine.Add(std::move(request), &listener);
    if (!id.ok()) return id.error().message;
    engine.Cancel(*id);
    return {};
  }

  const TinyCase golden_ = WithLayers(ReadTinyCase("llama"), kLayers);
  const std::unique_ptr<Model> model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
};

// Ten pages where there are six, in chunks of all sizes.
TEST_F(EngineLayerwiseTest, WhateverSelectsAnswersAreThoseOfTheResident) {
  for (int selector = 0;
       selector < static_cast<int>(kLayerwiseSelectors.size()); ++selector) {
    if (selector == kOracle) continue;
    for (const int max_rows : {7, 40, 96, 2048}) {
      SCOPED_TRACE(fmt::format(
          "{} max_rows={}", kLayerwiseSelectors[static_cast<size_t>(selector)],
          max_rows));
      Request request = Ask(selector, 301 + 8 * selector, 24, selector);
      if (selector % 2 == 0) request.num_question_tokens = 11;
      const auto engine =
          MakeEngine(6, 12, max_rows, CacheBudget{.tokens = 32});
      ExpectAnswers(Run(*engine, {request}), {request});
    }
  }
}

// Keeps what a prompt's rows say of it.
struct PromptKeeper : RecordingObserver {
  bool OnToken(const GeneratedToken& token) override {
    if (token.prompt) {
      for (const GeneratedToken& of_prompt : *token.prompt) {
        prompt.emplace_back(of_prompt.token_id, of_prompt.logprob);
      }
    }
    return RecordingObserver::OnToken(token);
  }
  std::vector<std::pair<int32_t, float>> prompt;
};

TEST_F(EngineLayerwiseTest, WhatItsPromptSaysOfItselfIsThatOfTheResident) {
  Request request = Ask(1, 301, 4, kMean);
  request.prompt_logprobs = 1;
  std::vector<PromptKeeper> keepers(2);
  for (const bool is_resident : {false, true}) {
    const auto engine = is_resident
                            ? MakeEngine(40, 0)
                            : MakeEngine(6, 12, 96, CacheBudget{.tokens = 32});
    ASSERT_TRUE(engine->Add(request, &keepers[is_resident]).ok());
    while (StepOf(*engine)) {
    }
  }
  EXPECT_EQ(keepers[0].prompt.size(), 300u);
  EXPECT_EQ(keepers[0].prompt, keepers[1].prompt);
  EXPECT_EQ(keepers[0].bits, keepers[1].bits);
}

// Keeps how far the prompt was, step by step.
struct ProgressKeeper : RecordingObserver {
  void OnPrefill(int done, int total) override {
    EXPECT_EQ(total, 301);
    told.push_back(done);
  }
  std::vector<int> told;
};

// A step is a chunk of one layer, so every one of them says something.
TEST_F(EngineLayerwiseTest, ItsObserverHearsOfEveryLayer) {
  const auto engine = MakeEngine(6, 12, 96, CacheBudget{.tokens = 32});
  ProgressKeeper keeper;
  ASSERT_TRUE(engine->Add(Ask(1, 301, 4, kMean), &keeper).ok());
  std::vector<int> want;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const int rows : {96, 192, 288, 301}) {
      want.push_back((layer * 301 + rows) / kLayers);
    }
  }
  for (size_t step = 1; step <= want.size(); ++step) {
    ASSERT_TRUE(StepOf(*engine));
    EXPECT_EQ(keeper.told.size(), step);
  }
  EXPECT_EQ(keeper.told, want);
  while (StepOf(*engine)) {
  }
  EXPECT_EQ(keeper.told, want);
}

TEST_F(EngineLayerwiseTest, OneLayerIsNearAndThePagesAreOnTheHost) {
  const Request request = Ask(1, 15 * kPageTokens + 5, 12, kMean);
  const auto engine = MakeEngine(6, 15, 128, CacheBudget{.tokens = 32});
  RecordingObserver listener;
  const SequenceId id = engine->Add(request, &listener).value();
  // Chunks of four pages, the last one of three and five tokens.
  for (int step = 0; step < 4 * kLayers - 1; ++step) {
    ASSERT_TRUE(StepOf(*engine));
    ASSERT_TRUE(engine->kv().has_loan(id));
    ASSERT_EQ(engine->kv().num_tokens(id), 0);
    // A tail; 15 layer blocks of KV and 16 of rows.
    ASSERT_EQ(engine->kv().loan(id).kv_blocks.size(), 1u + 4u);
  }
  ASSERT_TRUE(StepOf(*engine));
  EXPECT_FALSE(engine->kv().has_loan(id));
  EXPECT_EQ(listener.bits.size(), 1u);
  EXPECT_EQ(engine->kv().NumWhole(id), 1);
  EXPECT_EQ(engine->kv().NumFar(id), 15);
  EXPECT_EQ(engine->slots()->NumSlotKvBlocks(id), 1);
  while (StepOf(*engine)) {
  }
  EXPECT_GT(listener.completion.kv.misses, 0);
  EXPECT_EQ(listener.completion.num_preemptions, 0);
}

// Others begin, decode and end beside it, and are preempted to it.
TEST_F(EngineLayerwiseTest, OthersRunBesideIt) {
  std::vector<Request> requests = {
      Ask(1, 70, 60, kMean), Ask(2, 400, 40, kWindow), Ask(3, 90, 30, -1),
      Ask(4, 380, 20, kMean), Ask(5, 33, 50, kOracle)};
  for (const bool has_budget : {false, true}) {
    const auto engine = MakeEngine(
        11, 28, 64,
        has_budget ? std::optional(CacheBudget{.tokens = 64}) : std::nullopt);
    const auto got = Run(*engine, requests);
    ExpectAnswers(got, requests);
    EXPECT_EQ(got[1].completion.num_preemptions, 0);
    EXPECT_EQ(got[3].completion.num_preemptions, 0);
  }
}

TEST_F(EngineLayerwiseTest, ItNeverGivesWayNorComesBack) {
  const Request request = Ask(1, 300, 30, kMean);
  const auto engine = MakeEngine(6, 12, 64);
  RecordingObserver listener;
  const SequenceId id = engine->Add(request, &listener).value();
  for (int step = 0; StepOf(*engine); ++step) {
    if (step % 3 == 0) engine->Preempt(id);
    if (step % 3 == 1) engine->Demote(id);
    if (step % 3 == 2) engine->Promote(id, 3);
  }
  ExpectAnswers({listener}, {request});
  EXPECT_EQ(listener.completion.num_preemptions, 0);
}

// After every sixteen tokens, where one layer misses more than another; what
// it costs is no answer. The first layer reads everything, and has no frames.
TEST_F(EngineLayerwiseTest, FramesGoWhereTheySaveMost) {
  const Request request = Ask(1, 390, 110, kFirstDense);
  const auto engine = MakeEngine(14, 20, 512, CacheBudget{.tokens = 128});
  RecordingObserver listener;
  const SequenceId id = engine->Add(request, &listener).value();
  std::vector<int64_t> first;
  int num_changes = 0;
  int64_t num_steps = 0;
  while (StepOf(*engine)) {
    const SlotLedger& ledger = engine->slots()->ledger();
    if (!ledger.is_open(id)) continue;
    std::vector<int64_t> frames;
    for (int layer = 0; layer < kLayers; ++layer) {
      frames.push_back(std::ssize(ledger.frames(id, layer)));
    }
    ASSERT_EQ(frames[0], 0);
    ASSERT_EQ(std::accumulate(frames.begin(), frames.end(), int64_t{0}),
              kLayers * 4);
    ASSERT_GE(*std::min_element(frames.begin() + 1, frames.end()), 2);
    if (first.empty()) first = frames;
    // Not before enough has been counted.
    const bool is_early = ++num_steps <= kFrameMoveRows;
    ASSERT_TRUE(frames == first || !is_early);
    num_changes += frames != first;
  }
  EXPECT_GT(num_changes, 0);
  EXPECT_GT(engine->slots()->num_moved_frames(), 0);
  ExpectAnswers({listener}, {request});
}

TEST_F(EngineLayerwiseTest, WhoIsCancelledLeavesNothing) {
  for (const int num_steps : {0, 1, 7, 40}) {
    const auto engine = MakeEngine(6, 12, 64);
    RecordingObserver listener;
    const SequenceId id =
        engine->Add(Ask(1, 300, 30, kMean), &listener).value();
    for (int step = 0; step < num_steps; ++step) StepOf(*engine);
    engine->Cancel(id);
    EXPECT_EQ(listener.completion.kv.device_bytes > 0, num_steps > 0);
    EXPECT_EQ(engine->kv().num_free_pages(), 6);
    EXPECT_EQ(engine->kv().num_available_host_pages(), 12);
    EXPECT_EQ(BrokenInvariants(*engine), std::vector<std::string>());
  }
}

// Others have its first pages, which it takes none of off the device.
TEST_F(EngineLayerwiseTest, ItIsPromisedWhatItTakesBesideItsPrefix) {
  const auto engine = MakeEngine(11, 12, 64);
  std::vector<RecordingObserver> listeners(3);
  const std::vector<Request> requests = {
      Ask(1, 70, 30, kOracle), Ask(2, 70, 30, kOracle), Ask(1, 400, 10, kMean)};
  ASSERT_TRUE(engine->Add(requests[0], &listeners[0]).ok());
  ASSERT_TRUE(engine->Add(requests[1], &listeners[1]).ok());
  // They hold four pages each, and it would take four of the three others.
  for (int step = 0; step < 30; ++step) StepOf(*engine);
  ASSERT_EQ(engine->kv().num_free_pages(), 3);
  ASSERT_TRUE(engine->Add(requests[2], &listeners[2]).ok());
  while (StepOf(*engine)) {
  }
  ExpectAnswers(listeners, requests);
  EXPECT_EQ(listeners[2].completion.num_cached_tokens, 64);
}

// What it leaves on the host is the prefix of others.
TEST_F(EngineLayerwiseTest, ItsPagesAreOthersPrefix) {
  const auto engine = MakeEngine(6, 12, 64, CacheBudget{.tokens = 32});
  Run(*engine, {Ask(1, 300, 10, kMean)});
  const std::vector<Request> next = {Ask(1, 100, 10, kMean)};
  const auto got = Run(*engine, next);
  EXPECT_EQ(got.front().completion.num_cached_tokens, 96);
  ExpectAnswers(got, next);
}

TEST_F(EngineLayerwiseTest, ErrorsNameTheLimitAndTheValue) {
  const auto engine = MakeEngine(6, 12);
  // Dense, and by the keys themselves, as ever: 11 pages.
  for (const int selector : {-1, kOracle}) {
    EXPECT_EQ(ErrorOf(*engine, Ask(1, 330, 10, selector)),
              fmt::format("KV of 339 tokens (a prompt of 330 and max-tokens) "
                          "needs {}, device-kv holds {}",
                          FormatBytes(11 * PageBytes()),
                          FormatBytes(6 * PageBytes())));
  }
  // 12 pages far, and what it generates is whole.
  EXPECT_EQ(ErrorOf(*engine, Ask(1, 12 * kPageTokens, 32, kWindow)), "");
  EXPECT_EQ(
      ErrorOf(*engine, Ask(1, 13 * kPageTokens, 32, kWindow)),
      fmt::format("KV of a prompt of 416 tokens, which device-kv ({}) "
                  "cannot hold, needs {} of the host, host-kv holds {}",
                  FormatBytes(6 * PageBytes()), FormatBytes(13 * PageBytes()),
                  FormatBytes(12 * PageBytes())));
  // Four of slots, and what is generated.
  EXPECT_EQ(
      ErrorOf(*engine, Ask(1, 10 * kPageTokens, 190, kWindow)),
      fmt::format("KV of 509 tokens (a prompt of 320 and max-tokens) needs {} "
                  "even when it is read layer by layer (a layer's KV and "
                  "hidden states: {}; then slots and {} of pages), "
                  "device-kv holds {}",
                  FormatBytes(10 * PageBytes()), FormatBytes(3 * PageBytes()),
                  FormatBytes(6 * PageBytes()), FormatBytes(6 * PageBytes())));
  Request watched = Ask(1, 300, 10, kMean);
  watched.is_watched = true;
  EXPECT_EQ(
      ErrorOf(*engine, watched),
      fmt::format("KV of a watched request must be at most {} "
                  "(device-kv), as a larger one is read layer by layer, "
                  "is {} (309 tokens: a prompt of 300 and max-tokens)",
                  FormatBytes(6 * PageBytes()), FormatBytes(10 * PageBytes())));
}

// One page of slots has room for 32 tokens of every layer.
TEST_F(EngineLayerwiseTest, ASmallerCacheBudgetIsNamedWhereItWouldDo) {
  constexpr std::string_view kWayOut = "; a cache-budget of ";
  struct Case {
    int num_tokens, max_tokens;
    int64_t budget;  // of the engine
    std::string_view named;
  };
  for (const Case& each : std::initializer_list<Case>{
           // Five pages of slots and two later ones where there are six.
           {320, 60, 160, "128"},
           // More slots than pages that may leave: it is not taken at all.
           {200, 30, 320, "128"},
           // What it generates is too much by itself, and one that fits.
           {320, 190, 160, ""},
           {320, 60, 128, "fits"}}) {
    SCOPED_TRACE(fmt::format("{}+{}", each.num_tokens, each.max_tokens));
    const Request request = Ask(1, each.num_tokens, each.max_tokens, kWindow);
    const auto refused = ErrorOf(
        *MakeEngine(6, 12, 96, CacheBudget{.tokens = each.budget}), request);
    if (each.named == "fits") {
      EXPECT_EQ(refused, "");
      continue;
    }
    const size_t at = refused.find(kWayOut);
    ASSERT_NE(refused, "");
    if (each.named.empty()) {
      EXPECT_EQ(at, std::string::npos) << refused;
      continue;
    }
    ASSERT_NE(at, std::string::npos) << refused;
    EXPECT_TRUE(refused.substr(at + kWayOut.size())
                    .starts_with(fmt::format("{} tokens would do", each.named)))
        << refused;
    const int64_t named = std::atoi(std::string(each.named).c_str());
    EXPECT_EQ(
        ErrorOf(*MakeEngine(6, 12, 96, CacheBudget{.tokens = named}), request),
        "");
    EXPECT_NE(ErrorOf(*MakeEngine(6, 12, 96, CacheBudget{.tokens = named + 1}),
                      request),
              "");
  }
}

}  // namespace
}  // namespace winnow
