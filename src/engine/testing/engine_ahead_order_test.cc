// When steps are launched ahead, and when not; and what becomes of a row whose
// request has ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/late_backend.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Whatever comes is allowed; so it needs every token before the next draw.
class Counting : public TokenConstraint {
 public:
  Status Mask(std::span<uint32_t> words) override {
    std::ranges::fill(words, ~0u);
    masked_at.push_back(num_accepted);
    return Ok{};
  }
  void Accept(int32_t) override { ++num_accepted; }
  bool complete() const override { return false; }

  int num_accepted = 0;
  std::vector<int> masked_at;  // tokens that were known at each mask
};

class EngineAheadOrderTest : public testing::Test {
 protected:
  static constexpr int kPromptTokens = 40, kMaxTokens = 12;

  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    auto cpu =
        std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 1}));
    cpu_ = cpu.get();
    backend_ =
        std::make_unique<LateBackend>(std::move(cpu), 1, /*eagerness=*/0);
    // How many steps are launched and not yet read back.
    backend_->on_wait = [this]() -> Status {
      depths_.push_back(backend_->num_embedded() - num_waits_++);
      return Ok{};
    };
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options = {}) {
    options.device_kv_bytes = 4 << 20;
    options.max_model_len = 96;
    options.batch_invariant = true;
    return Engine::Create(*backend_, *model_, options).value();
  }
  Request Ask(int first, int max_tokens = kMaxTokens) const {
    Request request;
    for (int i = 0; i < kPromptTokens; ++i) {
      request.prompt.push_back(TinyToken(golden_, first, i));
    }
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }
  static void RunToEnd(Engine& engine) {
    while (engine.Step().value()) {
    }
  }
  RecordingObserver RunAlone(const EngineOptions& options,
                             const Request& request) {
    const auto engine = MakeEngine(options);
    RecordingObserver listener;
    CHECK(engine->Add(request, &listener).ok());
    RunToEnd(*engine);
    return listener;
  }
  static void ExpectAllIsGivenBack(const Engine& engine) {
    EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
    EXPECT_EQ(engine.kv().num_sequences(), 0);
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  HookedBackend* cpu_ = nullptr;
  std::unique_ptr<LateBackend> backend_;
  int num_waits_ = 0;
  std::vector<int> depths_;  // at each wait
};

TEST_F(EngineAheadOrderTest, AStepIsLaunchedBeforeTheOneAheadIsReadBack) {
  RunAlone({}, Ask(3));
  // The last one has nothing behind it, as max_tokens is known.
  std::vector<int> expected(kMaxTokens, 2);
  expected.back() = 1;
  EXPECT_EQ(depths_, expected);
  // Chunks of a prompt do not wait for one another either.
  depths_.clear();
  RunAlone({.max_num_batched_tokens = 32}, Ask(4));
  expected.insert(expected.begin(), 2);
  EXPECT_EQ(depths_, expected);
  depths_.clear();
  RunAlone({.looks_ahead = false}, Ask(3));
  EXPECT_EQ(depths_, std::vector<int>(kMaxTokens, 1));
}

TEST_F(EngineAheadOrderTest, WhatADrawNeedsIsKnownAndWaitsForNothing) {
  Request request = Ask(3);
  request.sampling.temperature = 1.5f;
  request.sampling.frequency_penalty = 1;
  const auto plain = RunAlone({.looks_ahead = false}, request).bits;
  depths_.clear();
  const auto constraint = std::make_shared<Counting>();
  request.constraint = constraint;
  EXPECT_EQ(RunAlone({}, request).bits, plain);
  std::vector<int> expected(kMaxTokens, 2);
  expected.back() = 1;
  EXPECT_EQ(depths_, expected);
  std::vector<int> known(kMaxTokens);
  for (int i = 0; i < kMaxTokens; ++i) known[static_cast<size_t>(i)] = i;
  EXPECT_EQ(constraint->masked_at, known);
}

TEST_F(EngineAheadOrderTest, WhoComesWaitsOneStepMoreAtMost) {
  for (const bool looks_ahead : {false, true}) {
    const auto engine = MakeEngine({.looks_ahead = looks_ahead});
    RecordingObserver first, second;
    ASSERT_TRUE(engine->Add(Ask(3), &first).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(*engine->Step());
    ASSERT_TRUE(engine->Add(Ask(5), &second).ok());
    int num_steps = 0;
    for (; second.bits.empty(); ++num_steps) ASSERT_TRUE(*engine->Step());
    EXPECT_EQ(num_steps, looks_ahead ? 2 : 1);
    RunToEnd(*engine);
    EXPECT_EQ(second.bits, RunAlone({}, Ask(5)).bits);
    ExpectAllIsGivenBack(*engine);
  }
}

TEST_F(EngineAheadOrderTest, AWatchedRequestHasNoStepBehindItsOwn) {
  Request request = Ask(3);
  request.is_watched = true;
  RunAlone({.max_watched_requests = 1}, request);
  EXPECT_EQ(depths_, std::vector<int>(kMaxTokens, 1));
}

// Of requests that end by a token, by Cancel and by a deadline.
TEST_F(EngineAheadOrderTest, ARowOfOneWhoHasEndedIsNobodys) {
  const auto plain = RunAlone({.looks_ahead = false}, Ask(3)).bits;
  const auto other = RunAlone({.looks_ahead = false}, Ask(5)).bits;
  for (const bool by_token : {true, false}) {
    const auto engine = MakeEngine();
    RecordingObserver ending, going_on;
    Request request = Ask(3);
    if (by_token) request.end_token_ids = {plain[4].first};
    const SequenceId id = engine->Add(request, &ending).value();
    ASSERT_TRUE(engine->Add(Ask(5), &going_on).ok());
    while (ending.bits.size() < 5 && !ending.finished) {
      ASSERT_TRUE(*engine->Step());
    }
    if (!by_token) engine->Cancel(id);
    ASSERT_TRUE(ending.finished);
    EXPECT_LE(ending.bits.size(), 5u);
    EXPECT_TRUE(
        std::equal(ending.bits.begin(), ending.bits.end(), plain.begin()));
    EXPECT_EQ(engine->kv().num_sequences(), 1);
    RunToEnd(*engine);
    EXPECT_EQ(going_on.bits, other);
    ExpectAllIsGivenBack(*engine);
  }
}

TEST_F(EngineAheadOrderTest, AnEngineMayGoWithAStepUnderWay) {
  RecordingObserver listener;
  {
    const auto engine = MakeEngine();
    ASSERT_TRUE(engine->Add(Ask(3), &listener).ok());
    ASSERT_TRUE(*engine->Step());
  }
  EXPECT_EQ(listener.completion.reason, FinishReason::kCancelled);
  // One that has nobody left goes on with whoever comes.
  const auto engine = MakeEngine();
  RecordingObserver gone, late;
  const SequenceId id = engine->Add(Ask(3), &gone).value();
  ASSERT_TRUE(*engine->Step());
  engine->Cancel(id);
  ASSERT_TRUE(engine->Add(Ask(5), &late).ok());
  RunToEnd(*engine);
  EXPECT_EQ(late.bits, RunAlone({}, Ask(5)).bits);
  ExpectAllIsGivenBack(*engine);
}

TEST_F(EngineAheadOrderTest, ALateRequestIsToldSoWithAStepUnderWay) {
  const auto engine = MakeEngine();
  RecordingObserver late, other;
  Request request = Ask(3);
  ASSERT_TRUE(engine->Add(Ask(5), &other).ok());
  request.deadline.emplace();
  request.deadline->at =
      Sequence::Clock::now() + std::chrono::milliseconds(200);
  ASSERT_TRUE(engine->Add(request, &late).ok());
  ASSERT_TRUE(*engine->Step());
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  RunToEnd(*engine);
  ASSERT_TRUE(late.completion.error.has_value());
  EXPECT_EQ(late.completion.error->code, ErrorCode::kCancelled);
  EXPECT_EQ(other.bits.size(), static_cast<size_t>(kMaxTokens));
  ExpectAllIsGivenBack(*engine);
}

// Its next row, which is under way then, embeds no token.
TEST_F(EngineAheadOrderTest, ARequestWithoutATokenEndsAndTheOthersGoOn) {
  const auto alone = RunAlone({}, Ask(5)).bits;
  int num_samples = 0;
  cpu_->pre_sample = [&num_samples](const SampleArgs& args) {
    if (++num_samples != 3) return;
    auto* first = args.logits.Row<float>(0);
    std::fill(first, first + args.logits.dim(1),
              std::numeric_limits<float>::quiet_NaN());
  };
  const auto engine = MakeEngine();
  RecordingObserver failing, other;
  ASSERT_TRUE(engine->Add(Ask(3), &failing).ok());
  ASSERT_TRUE(engine->Add(Ask(5), &other).ok());
  RunToEnd(*engine);
  ASSERT_TRUE(failing.completion.error.has_value());
  EXPECT_EQ(failing.completion.error->code, ErrorCode::kCorrupt);
  EXPECT_EQ(failing.bits.size(), 2u);
  EXPECT_EQ(other.bits, alone);
  ExpectAllIsGivenBack(*engine);
}

TEST_F(EngineAheadOrderTest, AFailedDeviceEndsEveryRequest) {
  const auto engine = MakeEngine();
  std::vector<RecordingObserver> listeners(2);
  for (RecordingObserver& listener : listeners) {
    ASSERT_TRUE(engine->Add(Ask(3), &listener).ok());
  }
  ASSERT_TRUE(*engine->Step());
  backend_->on_wait = [] {
    return MakeError(ErrorCode::kIo, "device cpu:7 fell off the bus");
  };
  EXPECT_FALSE(engine->Step().ok());
  for (const RecordingObserver& listener : listeners) {
    ASSERT_TRUE(listener.completion.error.has_value());
    EXPECT_EQ(listener.completion.error->message,
              "device cpu:7 fell off the bus");
  }
  ExpectAllIsGivenBack(*engine);
}

}  // namespace
}  // namespace winnow
