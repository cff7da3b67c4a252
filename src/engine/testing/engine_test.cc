#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/hooked_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Keeps all that the engine tells.
class Collector : public RequestObserver {
 public:
  void OnPrefill(int done, int total) override {
    EXPECT_LE(done, total);
    EXPECT_GT(done, prefilled_);
    prefilled_ = done;
  }
  bool OnToken(const GeneratedToken& token) override {
    EXPECT_FALSE(finished);
    tokens.push_back(token);
    return static_cast<int>(tokens.size()) != stop_after;
  }
  void OnFinish(const Completion& given) override {
    EXPECT_FALSE(finished);
    finished = true;
    completion = given;
  }

  std::vector<int32_t> Ids() const {
    std::vector<int32_t> ids;
    for (const GeneratedToken& token : tokens) ids.push_back(token.token_id);
    return ids;
  }
  // Every reported number, in order: equal exactly where all bits are.
  std::vector<std::pair<int32_t, float>> Bits() const {
    std::vector<std::pair<int32_t, float>> bits;
    for (const GeneratedToken& token : tokens) {
      bits.emplace_back(token.token_id, token.logprob);
      for (const TokenLogprob& other : token.top) {
        bits.emplace_back(other.token_id, other.logprob);
      }
    }
    return bits;
  }

  std::vector<GeneratedToken> tokens;
  Completion completion;
  bool finished = false;
  int stop_after = -1;

 private:
  int prefilled_ = 0;
};

// A tiny golden model of a dtype, loaded once a test.
class EngineTest : public testing::Test {
 protected:
  static constexpr int64_t kPoolBytes = 4 << 20;

  void LoadModel(const std::string& name, Dtype dtype) {
    golden_ = ReadTinyCase(name);
    model_ = LoadTinyModel(golden_, dtype);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options,
                                     int num_threads = 2) {
    if (options.device_kv_bytes == 0) options.device_kv_bytes = kPoolBytes;
    options.max_model_len = 96;
    backends_.push_back(MakeCpuBackend({.num_threads = num_threads}));
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(*backends_.back(), *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  // The golden prompt from `first` on.
  Request RequestFrom(int first, int max_tokens = 6) const {
    Request request;
    request.prompt.assign(golden_.tokens.begin() + first, golden_.tokens.end());
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.sampling.logprobs = kMaxTopLogprobs;
    return request;
  }

  // Runs the requests together and checks the invariants after every step.
  static std::vector<Collector> RunAll(Engine& engine,
                                       const std::vector<Request>& requests) {
    std::vector<Collector> collectors(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result<SequenceId> id = engine.Add(requests[i], &collectors[i]);
      CHECK(id.ok(), "{}", id.error().message);
    }
    while (true) {
      const Result<bool> more = engine.Step();
      CHECK(more.ok(), "{}", more.error().message);
      const std::vector<std::string> broken = BrokenInvariants(engine);
      CHECK(broken.empty(), "{}", broken.front());
      if (!*more) break;
    }
    for (const Collector& collector : collectors) CHECK(collector.finished);
    CHECK(engine.kv().num_free_pages() == engine.kv().num_pages());
    return collectors;
  }

  Collector RunAlone(const EngineOptions& options, const Request& request,
                     int num_threads = 2) {
    const std::unique_ptr<Engine> engine = MakeEngine(options, num_threads);
    return RunAll(*engine, {request})[0];
  }

  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<Model> model_;
  TinyCase golden_;
};

// docs/design.md section 5: with --batch-invariant, bits depend neither on the
// batch nor on chunks nor on layer ranges nor on threads.
class EngineBitsTest
    : public EngineTest,
      public testing::WithParamInterface<std::pair<const char*, Dtype>> {};

TEST_P(EngineBitsTest, DoNotDependOnTheCompany) {
  LoadModel(GetParam().first, GetParam().second);
  const EngineOptions options = {.batch_invariant = true};
  std::vector<Request> requests;
  for (const int first : {0, 17, 48, 79}) {
    requests.push_back(RequestFrom(first));
  }
  const auto together = RunAll(*MakeEngine(options), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].Bits(), RunAlone(options, requests[i]).Bits()) << i;
  }
}

TEST_P(EngineBitsTest, DoNotDependOnChunks) {
  LoadModel(GetParam().first, GetParam().second);
  const Collector whole = RunAlone({.batch_invariant = true}, RequestFrom(0));
  for (const int chunk : {1, 7, 32, 33, 64}) {
    const EngineOptions options = {.max_num_batched_tokens = chunk,
                                   .batch_invariant = true};
    EXPECT_EQ(RunAlone(options, RequestFrom(0)).Bits(), whole.Bits()) << chunk;
  }
}

TEST_P(EngineBitsTest, DoNotDependOnLayerRangesOrThreads) {
  LoadModel(GetParam().first, GetParam().second);
  const Collector whole = RunAlone({.batch_invariant = true}, RequestFrom(0));
  const EngineOptions by_layer = {.max_num_batched_tokens = 40,
                                  .batch_invariant = true,
                                  .layers_per_step = 1};
  EXPECT_EQ(RunAlone(by_layer, RequestFrom(0)).Bits(), whole.Bits());
  // Two prompts between the same layers at once.
  EngineOptions together = by_layer;
  together.max_num_batched_tokens = 128;
  const auto both =
      RunAll(*MakeEngine(together), {RequestFrom(0), RequestFrom(48)});
  EXPECT_EQ(both[0].Bits(), whole.Bits());
  EXPECT_EQ(both[1].Bits(),
            RunAlone({.batch_invariant = true}, RequestFrom(48)).Bits());
  EXPECT_EQ(RunAlone({.batch_invariant = true}, RequestFrom(0), 1).Bits(),
            whole.Bits());
}

// What was generated, fed again as the question behind the same prompt, reads
// as it read when it was generated, in whatever steps.
TEST_P(EngineBitsTest, AReplayRunsAsItFirstRan) {
  LoadModel(GetParam().first, GetParam().second);
  const EngineOptions options = {.batch_invariant = true};
  const Collector first = RunAlone(options, RequestFrom(0, 8));
  Request replay = RequestFrom(0, 3);
  for (int i = 0; i < 5; ++i) {
    replay.prompt.push_back(first.Ids()[static_cast<size_t>(i)]);
  }
  replay.num_question_tokens = 5;
  for (const int rows : {256, 64, 2}) {
    EngineOptions by_rows = options;
    by_rows.max_num_batched_tokens = rows;
    const auto bits = RunAlone(by_rows, replay).Bits();
    const auto all = first.Bits();
    EXPECT_EQ(bits, std::vector(all.end() - std::ssize(bits), all.end()))
        << rows;
  }
}

// Earlier requests leave holes in the pool; the next one's pages lie in them.
TEST_P(EngineBitsTest, DoNotDependOnWhereThePagesLie) {
  LoadModel(GetParam().first, GetParam().second);
  const EngineOptions options = {.batch_invariant = true};
  std::vector<Collector> before(4);
  Collector got;
  const std::unique_ptr<Engine> engine = MakeEngine(options);
  std::vector<SequenceId> ids;
  for (Collector& collector : before) {
    ids.push_back(*engine->Add(RequestFrom(60, 12), &collector));  // One page.
  }
  ASSERT_TRUE(*engine->Step());
  engine->Cancel(ids[0]);
  engine->Cancel(ids[2]);
  const SequenceId id = *engine->Add(RequestFrom(0), &got);
  bool fragmented = false;
  while (!got.finished) {
    ASSERT_TRUE(*engine->Step());
    if (got.finished || got.tokens.empty()) continue;
    const std::span<const KvBlockId> pages = engine->kv().pages(id);
    for (size_t i = 1; i < pages.size(); ++i) {
      fragmented |= pages[i].value() != pages[i - 1].value() + 1;
    }
  }
  EXPECT_TRUE(fragmented);
  EXPECT_EQ(got.Bits(), RunAlone(options, RequestFrom(0)).Bits());
}

INSTANTIATE_TEST_SUITE_P(
    Models, EngineBitsTest,
    testing::Values(std::pair("llama_llama3", Dtype::kFloat32),
                    std::pair("qwen3", Dtype::kBFloat16),
                    std::pair("mistral", Dtype::kBFloat16),
                    std::pair("minicpm4_long", Dtype::kFloat32)),
    [](const auto& model) { return std::string(model.param.first); });

// In float32 the same holds without asking: its products always sum in one
// order (design section 5).
TEST_F(EngineTest, Float32BitsDependOnNothingUnasked) {
  LoadModel("llama", Dtype::kFloat32);
  std::vector<Request> requests;
  for (const int first : {0, 17, 48}) requests.push_back(RequestFrom(first));
  const auto together = RunAll(*MakeEngine({}), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].Bits(), RunAlone({}, requests[i]).Bits()) << i;
  }
  for (const int chunk : {1, 7, 33, 64}) {
    EXPECT_EQ(RunAlone({.max_num_batched_tokens = chunk}, requests[0]).Bits(),
              together[0].Bits())
        << chunk;
  }
  EXPECT_EQ(RunAlone({}, requests[0], 1).Bits(), together[0].Bits());
}

// The tiny models are too narrow to tell by their bits.
TEST_F(EngineTest, BatchInvarianceReachesEveryProduct) {
  LoadModel("llama", Dtype::kBFloat16);
  for (const bool asked : {false, true}) {
    HookedBackend backend(MakeCpuBackend({.num_threads = 1}));
    int num_products = 0;
    backend.pre_linear = [&](const LinearArgs& args) {
      ++num_products;
      EXPECT_EQ(args.batch_invariant, asked) << "product " << num_products;
    };
    const EngineOptions options = {.max_model_len = 96,
                                   .device_kv_bytes = kPoolBytes,
                                   .batch_invariant = asked};
    const auto engine = Engine::Create(backend, *model_, options);
    (void)RunAll(**engine, {RequestFrom(0, 2)});
    // Four a layer and the logits, in two steps.
    EXPECT_EQ(num_products, 2 * (4 * model_->config().num_layers + 1));
  }
}

TEST_F(EngineTest, GreedyTokensAreTheGoldenModels) {
  LoadModel("llama", Dtype::kFloat32);
  const Collector got = RunAlone({}, RequestFrom(0, 1));
  // The golden logits of the last position cover 32 of the vocabulary: the
  // reported log probabilities must differ by as much as they do.
  const size_t last = (golden_.tokens.size() - 1) * golden_.logit_ids.size();
  for (const TokenLogprob& a : got.tokens[0].top) {
    for (const TokenLogprob& b : got.tokens[0].top) {
      const auto find = [&](int32_t id) {
        return std::find(golden_.logit_ids.begin(), golden_.logit_ids.end(),
                         id) -
               golden_.logit_ids.begin();
      };
      const auto count = static_cast<int64_t>(golden_.logit_ids.size());
      if (find(a.token_id) == count || find(b.token_id) == count) continue;
      const float want =
          golden_.logits[last + static_cast<size_t>(find(a.token_id))] -
          golden_.logits[last + static_cast<size_t>(find(b.token_id))];
      EXPECT_NEAR(a.logprob - b.logprob, want, 4e-4);
    }
  }
}

TEST_F(EngineTest, RequestsWaitForRoomAndAllEnd) {
  LoadModel("llama", Dtype::kFloat32);
  // Three pages of 32 tokens: one request of 80 + 6 tokens at a time.
  EngineOptions options;
  options.device_kv_bytes =
      3 * kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  const auto got = RunAll(*MakeEngine(options),
                          {RequestFrom(0), RequestFrom(0), RequestFrom(40)});
  EXPECT_EQ(got[0].Bits(), got[1].Bits());
  EXPECT_EQ(got[2].completion.num_prompt_tokens, 40);
  EXPECT_EQ(got[0].completion.reason, FinishReason::kLength);
  EXPECT_EQ(got[0].completion.kv.device_bytes, options.device_kv_bytes);
}

TEST_F(EngineTest, WhoAskedForNoNumberOfTokensGetsWhatThereIsRoomFor) {
  LoadModel("llama", Dtype::kFloat32);
  EngineOptions options;
  options.device_kv_bytes =
      2 * kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  const std::unique_ptr<Engine> engine = MakeEngine(options);
  Request request = RequestFrom(40, 57);
  EXPECT_EQ(engine->Check(request).error().code, ErrorCode::kResourceExhausted);
  request.may_get_fewer = true;
  EXPECT_TRUE(engine->Check(request).ok());
  const Collector got = RunAll(*engine, {request})[0];
  // The last token is never fed back.
  EXPECT_EQ(got.completion.num_prompt_tokens, 40);
  EXPECT_EQ(std::ssize(got.tokens), 2 * kPageTokens - 40 + 1);
  // What fits is left as it is, and what nothing helps is refused.
  request.max_tokens = 3;
  EXPECT_EQ(std::ssize(RunAll(*engine, {request})[0].tokens), 3);
  request = RequestFrom(0, 17);
  request.may_get_fewer = true;
  EXPECT_EQ(engine->Check(request).error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(engine->Check(request).error().message.find("prompt of 80"),
            std::string::npos);
}

TEST_F(EngineTest, EndsAtAnEndTokenOrWhereTheObserverSays) {
  LoadModel("llama", Dtype::kFloat32);
  const Collector free_run = RunAlone({}, RequestFrom(0));
  Request request = RequestFrom(0);
  request.end_token_ids = {free_run.tokens[2].token_id};
  const Collector ended = RunAlone({}, request);
  EXPECT_EQ(ended.completion.reason, FinishReason::kStop);
  EXPECT_EQ(ended.Ids().back(), request.end_token_ids[0]);
  EXPECT_LE(ended.tokens.size(), 3u);

  const std::unique_ptr<Engine> engine = MakeEngine({});
  Collector stopped;
  stopped.stop_after = 2;
  ASSERT_TRUE(engine->Add(RequestFrom(0), &stopped).ok());
  while (*engine->Step()) {
  }
  EXPECT_EQ(stopped.tokens.size(), 2u);
  EXPECT_EQ(stopped.completion.reason, FinishReason::kStop);
}

TEST_F(EngineTest, CancelGivesBackWhatItHeld) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine =
      MakeEngine({.max_num_batched_tokens = 32, .layers_per_step = 1});
  Collector running, waiting;
  const SequenceId first = *engine->Add(RequestFrom(0), &running);
  const SequenceId second = *engine->Add(RequestFrom(0), &waiting);
  ASSERT_TRUE(*engine->Step());
  engine->Cancel(first);
  engine->Cancel(second);
  engine->Cancel(second);  // Already ended: nothing happens.
  EXPECT_EQ(running.completion.reason, FinishReason::kCancelled);
  EXPECT_EQ(waiting.completion.num_generated_tokens, 0);
  EXPECT_FALSE(*engine->Step());
  EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
  // The engine goes on as if they had never been.
  EXPECT_EQ(RunAll(*engine, {RequestFrom(0)})[0].Bits(),
            RunAlone({}, RequestFrom(0)).Bits());
}

TEST_F(EngineTest, AQuestionIsReadAsDecodeRows) {
  LoadModel("llama", Dtype::kFloat32);
  Request request = RequestFrom(0);
  const Collector plain = RunAlone({}, request);
  request.num_question_tokens = 20;
  const Collector asked = RunAlone({}, request);
  EXPECT_EQ(asked.Ids(), plain.Ids());
  // Another order of the same sums: close, and not by accident the same code.
  EXPECT_NEAR(asked.tokens[0].logprob, plain.tokens[0].logprob, 1e-4);
}

TEST_F(EngineTest, SamplingParametersReachTheDraw) {
  LoadModel("llama", Dtype::kFloat32);
  Request request = RequestFrom(0, 12);
  request.sampling.temperature = 1.5f;
  request.sampling.frequency_penalty = 0.5f;
  request.sampling.seed = 5;
  const Collector drawn = RunAlone({}, request);
  EXPECT_EQ(RunAlone({}, request).Ids(), drawn.Ids());
  request.sampling.seed = 6;
  EXPECT_NE(RunAlone({}, request).Ids(), drawn.Ids());
}

TEST_F(EngineTest, WhatCannotRunIsRefusedWithFieldLimitAndValue) {
  LoadModel("llama", Dtype::kFloat32);
  EngineOptions options;
  options.device_kv_bytes =
      2 * kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  const std::unique_ptr<Engine> engine = MakeEngine(options);
  Collector never;
  const auto error_of = [&](const Request& request) {
    return engine->Add(request, &never).error().message;
  };
  Request request = RequestFrom(40);
  request.prompt.clear();
  EXPECT_EQ(error_of(request), "prompt must have at least 1 token, has 0");
  EXPECT_EQ(error_of(RequestFrom(40, 0)),
            "max-tokens must be at least 1, is 0");
  EXPECT_NE(error_of(RequestFrom(0, 40))
                .find("must fit the context of 96 tokens (max-model-len), are "
                      "80 + 40"),
            std::string::npos)
      << error_of(RequestFrom(0, 40));
  EXPECT_NE(error_of(RequestFrom(0, 4)).find("device-kv holds"),
            std::string::npos);
  request = RequestFrom(40);
  request.prompt[3] = 160;
  EXPECT_EQ(error_of(request), "prompt token must be in [0, 159], is 160");
  request = RequestFrom(40);
  request.sampling.top_p = 2;
  EXPECT_EQ(error_of(request), "top_p must be in [0, 1], is 2");
  EXPECT_FALSE(never.finished);
}

// Whoever's time is over ends, whether it runs or waits, and nobody else does.
TEST_F(EngineTest, ADeadlineEndsWhoIsLateAndFreesItsPages) {
  LoadModel("llama", Dtype::kFloat32);
  const auto engine = MakeEngine({.max_num_seqs = 1});
  using Clock = std::chrono::steady_clock;
  const auto soon = std::chrono::milliseconds(30);
  Collector runs, waits, late;
  Request request = RequestFrom(0, 16);
  request.deadline = Deadline{.at = Clock::now() + std::chrono::hours(1)};
  ASSERT_TRUE(engine->Add(request, &waits).ok());
  request.deadline = Deadline{.at = Clock::now(), .limit = "timeout (0 s)"};
  ASSERT_TRUE(engine->Add(request, &late).ok());
  request.deadline = Deadline{.at = Clock::now() + soon};
  request.priority = -1;
  ASSERT_TRUE(engine->Add(request, &runs).ok());
  ASSERT_TRUE(engine->Step().value());
  EXPECT_TRUE(late.finished);
  EXPECT_NE(late.completion.error->message.find("0 were generated"),
            std::string::npos);
  EXPECT_EQ(late.completion.error->message.find("timeout (0 s)"), 0u);
  // More steps than it has time for.
  while (!runs.finished) {
    std::this_thread::sleep_for(soon / 10);
    ASSERT_TRUE(engine->Step().value());
    EXPECT_EQ(BrokenInvariants(*engine), std::vector<std::string>());
  }
  for (const Collector* each : {&runs, &late}) {
    EXPECT_EQ(each->completion.reason, FinishReason::kError);
    EXPECT_EQ(each->completion.error->code, ErrorCode::kCancelled);
  }
  while (engine->Step().value()) {
  }
  EXPECT_EQ(waits.completion.reason, FinishReason::kLength);
  EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
}

}  // namespace
}  // namespace winnow
