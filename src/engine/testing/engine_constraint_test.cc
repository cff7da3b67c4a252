// Requests whose tokens are held to a constraint: each is within it, and none
// depends on who runs beside it, or on being preempted.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// A rule that every token changes: of the ids about one in nine may come.
class TokenRule {
 public:
  explicit TokenRule(uint32_t seed) : state_(seed) {}
  bool Allows(int32_t id) const {
    return (static_cast<uint32_t>(id) * 7 + state_) % 9 == 0;
  }
  void Go(int32_t id) {
    state_ = state_ * 1664525u + static_cast<uint32_t>(id) + 1013904223u;
  }

 private:
  uint32_t state_;
};

// The rule for `length` tokens; then, with `fails`, none may come, else the
// text is complete.
class RuleConstraint : public TokenConstraint {
 public:
  RuleConstraint(uint32_t seed, int length, bool fails = false)
      : rule_(seed), left_(length), fails_(fails) {}

  Status Mask(std::span<uint32_t> words) override {
    std::ranges::fill(words, 0u);
    if (left_ == 0) return MakeError(ErrorCode::kInvalidArgument, "no way on");
    for (size_t id = 0; id < words.size() * 32; ++id) {
      if (rule_.Allows(static_cast<int32_t>(id))) {
        words[id / 32] |= uint32_t{1} << (id % 32);
      }
    }
    return Ok{};
  }
  void Accept(int32_t token_id) override {
    CHECK(left_ > 0 && rule_.Allows(token_id), "token={}", token_id);
    rule_.Go(token_id);
    --left_;
    ++num_accepted;
  }
  bool complete() const override { return left_ == 0 && !fails_; }

  int num_accepted = 0;

 private:
  TokenRule rule_;
  int left_;
  const bool fails_;
};

class EngineConstraintTest : public testing::Test {
 protected:
  static constexpr int kPromptTokens = 40;

  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options = {}) const {
    options.device_kv_bytes = 4 << 20;
    options.max_model_len = 96;
    options.batch_invariant = true;
    return Engine::Create(*backend_, *model_, options).value();
  }
  // A hot draw of at most 12 tokens.
  Request Ask(uint32_t seed) const {
    Request request;
    const auto begin = golden_.tokens.begin() + seed % 5;
    request.prompt.assign(begin, begin + kPromptTokens);
    request.max_tokens = 12;
    request.sampling.temperature = 1.5f;
    request.sampling.seed = seed;
    return request;
  }
  Request Ruled(uint32_t seed, int length, bool fails = false) const {
    Request request = Ask(seed);
    request.constraint = std::make_shared<RuleConstraint>(seed, length, fails);
    return request;
  }
  static void RunToEnd(Engine& engine) {
    while (engine.Step().value()) {
    }
  }
  static RecordingObserver RunAlone(Engine& engine, Request request) {
    RecordingObserver listener;
    CHECK(engine.Add(std::move(request), &listener).ok());
    RunToEnd(engine);
    return listener;
  }
  static void ExpectRuled(const RecordingObserver& heard, uint32_t seed) {
    TokenRule rule(seed);
    for (const auto& [id, logprob] : heard.bits) {
      EXPECT_TRUE(rule.Allows(id)) << id;
      rule.Go(id);
    }
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
};

TEST_F(EngineConstraintTest,
       EveryTokenIsAllowedAndTheEndIsWhereNothingFollows) {
  const auto engine = MakeEngine();
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const int length = 1 + static_cast<int>(seed) % 14;
    const RecordingObserver heard = RunAlone(*engine, Ruled(seed, length));
    ExpectRuled(heard, seed);
    const bool ends = length <= 12;
    EXPECT_EQ(heard.bits.size(), ends ? static_cast<size_t>(length) : 12u);
    EXPECT_EQ(heard.completion.reason,
              ends ? FinishReason::kStop : FinishReason::kLength);
    // Without the rule other tokens are drawn.
    EXPECT_NE(RunAlone(*engine, Ask(seed)).bits, heard.bits);
  }
}

TEST_F(EngineConstraintTest, ABatchIsWhatEachIsAlone) {
  const auto alone = MakeEngine();
  std::vector<RecordingObserver> expected;
  const auto request = [this](uint32_t i) {
    return i % 3 == 0 ? Ask(i) : Ruled(i, 3 + static_cast<int>(i));
  };
  for (uint32_t i = 0; i < 9; ++i) {
    expected.push_back(RunAlone(*alone, request(i)));
  }
  for (const int max_tokens : {7, 64, 2048}) {
    const auto engine = MakeEngine({.max_num_batched_tokens = max_tokens});
    std::vector<RecordingObserver> heard(9);
    for (uint32_t i = 0; i < 9; ++i) {
      ASSERT_TRUE(engine->Add(request(i), &heard[i]).ok());
    }
    RunToEnd(*engine);
    for (uint32_t i = 0; i < 9; ++i) {
      EXPECT_EQ(heard[i].bits, expected[i].bits) << i << " of " << max_tokens;
    }
  }
}

TEST_F(EngineConstraintTest, WhoGaveWayGoesOnWithinItsConstraint) {
  const auto alone = MakeEngine();
  const auto expected = RunAlone(*alone, Ruled(3, 10));
  for (int steps_before = 1; steps_before < 10; ++steps_before) {
    const auto engine = MakeEngine();
    RecordingObserver heard, other;
    const SequenceId id = engine->Add(Ruled(3, 10), &heard).value();
    ASSERT_TRUE(engine->Add(Ruled(4, 8), &other).ok());
    for (int step = 0; step < steps_before; ++step) {
      ASSERT_TRUE(engine->Step().value());
    }
    engine->Preempt(id);
    RunToEnd(*engine);
    EXPECT_EQ(heard.bits, expected.bits) << steps_before;
    EXPECT_EQ(heard.completion.num_preemptions, 1);
    ExpectRuled(other, 4);
  }
}

TEST_F(EngineConstraintTest, WhereNoTokenIsLeftTheRequestAloneFails) {
  const auto engine = MakeEngine();
  const auto expected = RunAlone(*engine, Ruled(1, 9));
  for (const int length : {0, 1, 5}) {
    RecordingObserver failing, other;
    ASSERT_TRUE(engine->Add(Ruled(2, length, /*fails=*/true), &failing).ok());
    ASSERT_TRUE(engine->Add(Ruled(1, 9), &other).ok());
    RunToEnd(*engine);
    EXPECT_EQ(failing.bits.size(), static_cast<size_t>(length));
    EXPECT_EQ(failing.completion.reason, FinishReason::kError);
    ASSERT_TRUE(failing.completion.error.has_value());
    EXPECT_EQ(failing.completion.error->message, "no way on");
    EXPECT_EQ(other.bits, expected.bits);
    EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
  }
}

// It is no part of the text, and not told to its constraint.
TEST_F(EngineConstraintTest, AnEndTokenEndsTheTextBesides) {
  const auto engine = MakeEngine();
  const auto whole = RunAlone(*engine, Ruled(6, 10));
  const auto constraint = std::make_shared<RuleConstraint>(6, 10);
  Request request = Ask(6);
  request.constraint = constraint;
  request.end_token_ids = {whole.bits[2].first};
  const auto heard = RunAlone(*engine, std::move(request));
  EXPECT_EQ(heard.bits.size(), 3u);
  EXPECT_EQ(heard.completion.reason, FinishReason::kStop);
  EXPECT_EQ(constraint->num_accepted, 2);
}

TEST_F(EngineConstraintTest, NoEndTokenComesBeforeTheLeast) {
  const auto engine = MakeEngine();
  const auto free = RunAlone(*engine, Ask(6));
  for (const int least : {0, 1, 3, 4, 12}) {
    Request request = Ask(6);
    // What would be drawn third: it ends the text where it may.
    request.end_token_ids = {free.bits[2].first, 1 << 20};
    request.min_tokens = least;
    const auto heard = RunAlone(*engine, std::move(request));
    EXPECT_GE(std::ssize(heard.bits), least);
    for (int i = 0; i < least; ++i) {
      EXPECT_NE(heard.bits[static_cast<size_t>(i)].first, free.bits[2].first);
    }
    if (least == 0) {
      EXPECT_EQ(heard.bits.size(), 3u);
    }
  }
}

TEST_F(EngineConstraintTest, OnlyAllowedTokensAreDrawn) {
  const auto engine = MakeEngine();
  Request request = Ask(2);
  request.allowed_token_ids = {5, 33, 64};
  RecordingObserver held, beside;
  ASSERT_TRUE(engine->Add(request, &held).ok());
  ASSERT_TRUE(engine->Add(Ask(1), &beside).ok());
  RunToEnd(*engine);
  EXPECT_EQ(held.bits.size(), 12u);
  for (const auto& [id, logprob] : held.bits) {
    EXPECT_EQ(std::ranges::count(request.allowed_token_ids, id), 1) << id;
  }
  EXPECT_EQ(beside.bits, RunAlone(*engine, Ask(1)).bits);
  request.allowed_token_ids = request.end_token_ids = {33};
  request.min_tokens = 1;
  const auto none = RunAlone(*engine, std::move(request));
  EXPECT_EQ(none.completion.reason, FinishReason::kError);
  EXPECT_NE(none.completion.error->message.find("min_tokens is 1"),
            std::string::npos);
}

TEST_F(EngineConstraintTest, ForcedTokensHaveNoConstraint) {
  const auto engine = MakeEngine();
  Request request = Ruled(0, 3);
  request.forced_tokens = {1};
  RecordingObserver listener;
  const auto added = engine->Add(std::move(request), &listener);
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().message,
            "forced tokens must be none beside a constraint, are 1");
}

}  // namespace
}  // namespace winnow
