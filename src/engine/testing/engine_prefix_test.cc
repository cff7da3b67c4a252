// Requests that share a prefix, and answers that are told what to go on with.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Keeps what the engine tells of one request.
class PrefixListener : public RequestObserver {
 public:
  void OnPrefill(int done, int) override { num_read = done; }
  bool OnToken(const GeneratedToken& token) override {
    bits.emplace_back(token.token_id, token.logprob);
    return true;
  }
  void OnFinish(const Completion& given) override {
    EXPECT_FALSE(finished);
    finished = true;
    completion = given;
  }
  std::vector<int32_t> Ids() const {
    std::vector<int32_t> ids;
    for (const auto& [id, logprob] : bits) ids.push_back(id);
    return ids;
  }

  int num_read = 0;
  std::vector<std::pair<int32_t, float>> bits;
  Completion completion;
  bool finished = false;
};

// Prompts are the golden prompt's first tokens, then some of its others.
class EnginePrefixTest : public testing::Test {
 protected:
  static constexpr int kMaxTokens = 5;
  static constexpr int kMaxLength = 90;

  void LoadModel(const std::string& name, Dtype dtype) {
    golden_ = ReadTinyCase(name);
    model_ = LoadTinyModel(golden_, dtype);
  }

  std::unique_ptr<Engine> MakeEngine(int64_t num_pages,
                                     EngineOptions options = {}) {
    options.device_kv_bytes =
        num_pages * kPageTokens *
        KvBytesPerToken(model_->config(), model_->dtypes().kv);
    options.max_model_len = 96;
    options.batch_invariant = true;
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(*backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  Prefix PrefixOf(int num_tokens) const {
    Prefix prefix;
    prefix.tokens.assign(golden_.tokens.begin(),
                         golden_.tokens.begin() + num_tokens);
    prefix.max_length = kMaxLength;
    return prefix;
  }

  // The prefix's tokens and a question of its own, `num_question` tokens.
  Request Ask(int num_prefix, int num_question, int which) const {
    Request request;
    request.prompt = PrefixOf(num_prefix).tokens;
    for (int i = 0; i < num_question; ++i) {
      const auto at = static_cast<size_t>(7 * which + i) % 80;
      request.prompt.push_back(golden_.tokens[at]);
    }
    request.num_question_tokens = num_question;
    request.max_tokens = kMaxTokens;
    request.sampling.temperature = 0;
    return request;
  }

  static void Run(Engine& engine) {
    while (*engine.Step()) {
      const auto broken = BrokenInvariants(engine);
      ASSERT_TRUE(broken.empty()) << broken.front();
    }
  }

  PrefixListener Alone(const Request& request) {
    PrefixListener listener;
    const std::unique_ptr<Engine> engine = MakeEngine(3);
    EXPECT_TRUE(engine->Add(request, &listener).ok());
    Run(*engine);
    return listener;
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Model> model_;
  TinyCase golden_;
};

class EngineForkBitsTest
    : public EnginePrefixTest,
      public testing::WithParamInterface<std::pair<const char*, Dtype>> {};

TEST_P(EngineForkBitsTest, AreThoseOfRequestsAlone) {
  LoadModel(GetParam().first, GetParam().second);
  for (const int num_prefix : {1, 31, 32, 45, 64}) {
    const std::unique_ptr<Engine> engine =
        MakeEngine(40, {.max_num_batched_tokens = 48});
    PrefixListener holder;
    std::vector<PrefixListener> listeners(4);
    const Result<SequenceId> prefix =
        engine->AddPrefix(PrefixOf(num_prefix), &holder);
    ASSERT_TRUE(prefix.ok()) << prefix.error().message;
    for (int i = 0; i < 4; ++i) {
      Request request = Ask(num_prefix, 1 + 6 * i, i);
      request.prefix = *prefix;
      ASSERT_TRUE(
          engine->Add(request, &listeners[static_cast<size_t>(i)]).ok());
    }
    engine->Release(*prefix);
    Run(*engine);
    EXPECT_EQ(holder.num_read, num_prefix);
    EXPECT_EQ(holder.completion.reason, FinishReason::kStop);
    EXPECT_TRUE(holder.bits.empty());
    for (int i = 0; i < 4; ++i) {
      const PrefixListener alone = Alone(Ask(num_prefix, 1 + 6 * i, i));
      EXPECT_EQ(listeners[static_cast<size_t>(i)].bits, alone.bits)
          << "prefix " << num_prefix << " fork " << i;
    }
    EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EngineForkBitsTest,
                         testing::Values(std::pair("llama", Dtype::kFloat32),
                                         std::pair("qwen3", Dtype::kBFloat16)),
                         [](const auto& model) {
                           return std::string(model.param.first);
                         });

TEST_F(EnginePrefixTest, PagesAreSharedAndGivenBackWithTheLastFork) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine(10);
  PrefixListener holder;
  std::vector<PrefixListener> listeners(3);
  const SequenceId prefix = *engine->AddPrefix(PrefixOf(70), &holder);
  EXPECT_TRUE(*engine->Step());
  EXPECT_FALSE(*engine->Step());  // Nothing to do before it is used.
  EXPECT_EQ(engine->kv().num_free_pages(), 7);
  for (int i = 0; i < 3; ++i) {
    Request request = Ask(70, 4, i);
    request.prefix = prefix;
    ASSERT_TRUE(engine->Add(request, &listeners[static_cast<size_t>(i)]).ok());
  }
  EXPECT_TRUE(*engine->Step());
  // Two full pages are shared, of the third each has a copy.
  EXPECT_EQ(engine->kv().num_free_pages(), 4);
  Run(*engine);
  EXPECT_FALSE(holder.finished);
  EXPECT_EQ(engine->kv().num_free_pages(), 7);
  engine->Release(prefix);
  EXPECT_TRUE(holder.finished);
  EXPECT_EQ(engine->kv().num_free_pages(), 10);
  engine->Release(prefix);  // Already ended: nothing happens.
}

TEST_F(EnginePrefixTest, ForksThatDoNotFitTogetherWaitForOneAnother) {
  LoadModel("llama", Dtype::kFloat32);
  // Three pages for the prefix, one for a fork.
  const std::unique_ptr<Engine> engine = MakeEngine(4);
  PrefixListener holder, stranger;
  std::vector<PrefixListener> listeners(4);
  const SequenceId prefix = *engine->AddPrefix(PrefixOf(70), &holder);
  const auto add = [&](int i) {
    Request request = Ask(70, 4, i);
    request.prefix = prefix;
    return engine->Add(request, &listeners[static_cast<size_t>(i)]).ok();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(i));
  // Waits for the prefix's pages; the fork that comes after him must not wait
  // for him.
  ASSERT_TRUE(engine->Add(Ask(70, 4, 9), &stranger).ok());
  Run(*engine);
  EXPECT_FALSE(stranger.finished);
  ASSERT_TRUE(add(3));
  Run(*engine);
  engine->Release(prefix);
  Run(*engine);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(listeners[static_cast<size_t>(i)].bits, Alone(Ask(70, 4, i)).bits)
        << i;
  }
  EXPECT_EQ(stranger.bits, Alone(Ask(70, 4, 9)).bits);
  EXPECT_EQ(engine->kv().num_free_pages(), 4);
}

TEST_F(EnginePrefixTest, CancellingAForkLeavesTheOthers) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine(10);
  PrefixListener holder, kept, dropped;
  const SequenceId prefix = *engine->AddPrefix(PrefixOf(45), &holder);
  Request request = Ask(45, 8, 1);
  request.prefix = prefix;
  const SequenceId first = *engine->Add(request, &dropped);
  request = Ask(45, 8, 2);
  request.prefix = prefix;
  ASSERT_TRUE(engine->Add(request, &kept).ok());
  engine->Release(prefix);
  ASSERT_TRUE(*engine->Step());
  ASSERT_TRUE(*engine->Step());
  engine->Cancel(first);
  EXPECT_EQ(dropped.completion.reason, FinishReason::kCancelled);
  EXPECT_FALSE(holder.finished);
  Run(*engine);
  EXPECT_EQ(kept.bits, Alone(Ask(45, 8, 2)).bits);
  EXPECT_EQ(engine->kv().num_free_pages(), 10);
}

TEST_F(EnginePrefixTest, CancellingTheLastForkEndsAReleasedPrefix) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine(10);
  PrefixListener holder, fork;
  Request request = Ask(40, 4, 0);
  request.prefix = *engine->AddPrefix(PrefixOf(40), &holder);
  const SequenceId id = *engine->Add(request, &fork);
  EXPECT_TRUE(*engine->Step());
  engine->Release(*request.prefix);
  EXPECT_FALSE(holder.finished);
  engine->Cancel(id);
  EXPECT_TRUE(holder.finished);
  EXPECT_EQ(engine->kv().num_free_pages(), 10);
  EXPECT_FALSE(*engine->Step());
}

TEST_F(EnginePrefixTest, CancellingAPrefixEndsAllThatUseIt) {
  LoadModel("llama", Dtype::kFloat32);
  // After no step, in the middle of the prefix, in the middle of the forks;
  // released or not.
  for (const int num_steps : {0, 1, 4}) {
    for (const bool released : {false, true}) {
      const std::unique_ptr<Engine> engine =
          MakeEngine(10, {.max_num_seqs = 1, .max_num_batched_tokens = 32});
      PrefixListener holder, running, waiting;
      const SequenceId prefix = *engine->AddPrefix(PrefixOf(70), &holder);
      Request request = Ask(70, 4, 1);
      request.prefix = prefix;
      ASSERT_TRUE(engine->Add(request, &running).ok());
      ASSERT_TRUE(engine->Add(request, &waiting).ok());
      if (released) engine->Release(prefix);
      for (int i = 0; i < num_steps; ++i) ASSERT_TRUE(*engine->Step());
      engine->Cancel(prefix);
      for (const PrefixListener* each : {&running, &waiting}) {
        EXPECT_EQ(each->completion.reason, FinishReason::kCancelled);
      }
      EXPECT_TRUE(holder.finished);
      EXPECT_FALSE(*engine->Step());
      EXPECT_EQ(engine->kv().num_free_pages(), 10);
    }
  }
}

TEST_F(EnginePrefixTest, WhatCannotShareIsRefused) {
  LoadModel("llama", Dtype::kFloat32);
  PrefixListener holder, never;
  const std::unique_ptr<Engine> engine = MakeEngine(4);
  const SequenceId prefix = *engine->AddPrefix(PrefixOf(60), &holder);
  const auto error_of = [&](Request request) {
    request.prefix = prefix;
    return engine->Add(request, &never).error().message;
  };
  Request request = Ask(60, 4, 0);
  request.num_question_tokens = 5;
  EXPECT_EQ(error_of(request),
            "question must lie behind the prefix, in the last 4 tokens of the "
            "prompt, has 5");
  EXPECT_EQ(error_of(Ask(60, 26, 0)),
            "prompt and max-tokens must fit the 90 tokens that the prefix has "
            "room for, are 86 + 5");
  Prefix wrong = PrefixOf(60);
  wrong.max_length = 61;
  EXPECT_NE(
      engine->AddPrefix(wrong, &never).error().message.find("has 60 and 61"),
      std::string::npos);
  wrong = PrefixOf(60);
  wrong.tokens[3] = 160;
  EXPECT_EQ(engine->AddPrefix(wrong, &never).error().message,
            "prefix token must be in [0, 159], is 160");
  wrong = PrefixOf(60);
  wrong.max_length = 98;
  EXPECT_NE(engine->AddPrefix(wrong, &never)
                .error()
                .message.find("96 tokens (max-model-len), are 60 + 38"),
            std::string::npos);
  // 3 pages of the prefix and a copy of the open one.
  EXPECT_NE(MakeEngine(3)
                ->AddPrefix(PrefixOf(70), &never)
                .error()
                .message.find("device-kv holds"),
            std::string::npos);
  request = Ask(10, 4, 0);
  request.forced_tokens.assign(6, 1);
  EXPECT_EQ(engine->Add(request, &never).error().message,
            "forced tokens must be at most max-tokens (5), are 6");
  request.forced_tokens = {-1};
  EXPECT_EQ(engine->Add(request, &never).error().message,
            "forced token must be in [0, 159], is -1");
  EXPECT_FALSE(never.finished);
}

TEST_F(EnginePrefixTest, ForcedTokensAreWhatTheAnswerGoesOnWith) {
  LoadModel("llama", Dtype::kFloat32);
  Request request = Ask(45, 8, 0);
  const PrefixListener by_itself = Alone(request);
  // Told what it would have said, it says the same.
  request.forced_tokens = by_itself.Ids();
  EXPECT_EQ(Alone(request).bits, by_itself.bits);
  // Told otherwise, each draw is the one that follows the words so far.
  request.forced_tokens = {3, 14, 15, 92};
  request.end_token_ids = {by_itself.bits[0].first};  // drawn, not gone on with
  const PrefixListener forced = Alone(request);
  ASSERT_EQ(forced.bits.size(), 5u);
  for (size_t i = 0; i < 4; ++i) {
    Request so_far = Ask(45, 8, 0);
    so_far.prompt.insert(
        so_far.prompt.end(), request.forced_tokens.begin(),
        request.forced_tokens.begin() + static_cast<int64_t>(i) + 1);
    so_far.num_question_tokens += static_cast<int>(i) + 1;
    EXPECT_EQ(Alone(so_far).bits[0], forced.bits[i + 1]) << i;
  }
}

TEST_F(EnginePrefixTest, CountsWhatDecodeRowsRead) {
  LoadModel("llama", Dtype::kFloat32);
  PrefixListener listener = Alone(Ask(45, 8, 0));
  // The question's rows and all draws but the last, which is never fed.
  EXPECT_EQ(listener.completion.kv.num_decode_rows, 8 + kMaxTokens - 1);
  EXPECT_EQ(listener.completion.kv.tokens_read_share, 1.0);
  Request one = Ask(45, 8, 0);
  one.num_question_tokens = 0;
  one.max_tokens = 1;
  EXPECT_EQ(Alone(one).completion.kv.num_decode_rows, 0);
  EXPECT_EQ(Alone(one).completion.kv.tokens_read_share, 0.0);

  LoadModel("mistral", Dtype::kFloat32);  // with a sliding window
  const int window = model_->config().windows[0];
  ASSERT_GT(window, 0);
  ASSERT_LT(window, 53);
  double sum = 0;
  for (int context = 46; context <= 57; ++context) {
    for (const int each : model_->config().windows) {
      sum += each > 0 ? std::min(1.0, 1.0 * each / context) : 1.0;
    }
  }
  const double layers = model_->config().num_layers;
  listener = Alone(Ask(45, 8, 0));
  EXPECT_NEAR(listener.completion.kv.tokens_read_share, sum / 12 / layers,
              1e-12);
}

}  // namespace
}  // namespace winnow
