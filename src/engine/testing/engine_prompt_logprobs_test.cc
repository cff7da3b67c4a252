// What the rows of a prompt say of its tokens: the scalar twin's logits,
// however the prompt is cut, cached and interrupted.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "model/forward/rope.h"
#include "tests/golden/step_driver.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

using Bits = std::vector<std::pair<int32_t, float>>;

// Keeps what the first token brings, and how the request ended.
class PromptListener : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    EXPECT_EQ(token.prompt != nullptr, wanted && num_tokens == 0);
    if (token.prompt) prompt = *token.prompt;
    ++num_tokens;
    return true;
  }
  void OnFinish(const Completion& given) override { completion = given; }

  Bits AllBits() const {
    Bits bits;
    for (const GeneratedToken& token : prompt) {
      bits.emplace_back(token.token_id, token.logprob);
      for (const auto& [id, logprob] : token.top)
        bits.emplace_back(id, logprob);
    }
    return bits;
  }

  bool wanted = true;
  int num_tokens = 0;
  std::vector<GeneratedToken> prompt;
  Completion completion;
};

class EnginePromptLogprobsTest : public testing::Test {
 protected:
  void LoadModel(const std::string& name) {
    golden_ = ReadTinyCase(name);
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
    options.device_kv_bytes = int64_t{4} << 20;
    options.max_model_len = 96;
    if (options.max_scored_rows == 0) options.max_scored_rows = 64;
    backends_.push_back(MakeCpuBackend({.num_threads = 2}));
    return Engine::Create(*backends_.back(), *model_, options).value();
  }

  Request Asked(std::optional<int> num_top = 5) const {
    Request request;
    request.prompt = golden_.tokens;
    request.max_tokens = 2;
    request.sampling.temperature = 0;
    request.prompt_logprobs = num_top;
    return request;
  }

  static void StepToEnd(Engine& engine) {
    bool more = true;
    while (more) {
      more = engine.Step().value();
      EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
    }
  }

  PromptListener Run(Engine& engine, const Request& request) {
    PromptListener listener;
    listener.wanted = request.prompt_logprobs.has_value();
    EXPECT_TRUE(engine.Add(request, &listener).ok());
    StepToEnd(engine);
    return listener;
  }

  Bits RunWith(const EngineOptions& options) {
    return Run(*MakeEngine(options), Asked()).AllBits();
  }

  std::vector<std::unique_ptr<Backend>> backends_;
  std::unique_ptr<Model> model_;
  TinyCase golden_;
};

// ln of the softmax, of the scalar twin's logits, in float64: [tokens, vocab].
std::vector<std::vector<double>> TwinLogprobs(const TinyCase& golden,
                                              const Model& model) {
  const auto backend =
      MakeCpuBackend({.num_threads = 1, .kernels = CpuKernels::kScalar});
  const int num_tokens = static_cast<int>(golden.tokens.size());
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  StepDriver driver(*backend, model, 1, num_tokens);
  driver.Plan(0, num_tokens + 2);
  const DrivenRows rows = {.request = 0,
                           .first_position = 0,
                           .token_ids = golden.tokens,
                           .num_prefill_rows = num_tokens};
  const std::vector<float> logits = driver.Step(std::span(&rows, 1));
  std::vector<std::vector<double>> all;
  for (size_t row = 0; row < golden.tokens.size(); ++row) {
    const auto own = std::span(logits).subspan(row * vocab, vocab);
    double sum = 0;
    for (const float logit : own) sum += std::exp(double{logit});
    std::vector<double>& logprobs = all.emplace_back();
    for (const float logit : own) logprobs.push_back(logit - std::log(sum));
  }
  return all;
}

TEST_F(EnginePromptLogprobsTest, AreThoseOfTheScalarTwin) {
  constexpr double kBound = 5e-4;
  for (const std::string& name : TinyCaseNames()) {
    LoadModel(name);
    const auto listener = Run(*MakeEngine({}), Asked(kMaxTopLogprobs));
    const auto twin = TwinLogprobs(golden_, *model_);
    ASSERT_EQ(listener.prompt.size(), golden_.tokens.size() - 1) << name;
    for (size_t i = 0; i < listener.prompt.size(); ++i) {
      const GeneratedToken& token = listener.prompt[i];
      ASSERT_EQ(token.token_id, golden_.tokens[i + 1]);
      const auto at = [&](int32_t id) {
        return twin[i][static_cast<size_t>(id)];
      };
      ASSERT_NEAR(token.logprob, at(token.token_id), kBound) << name << i;
      ASSERT_EQ(std::ssize(token.top), kMaxTopLogprobs);
      ASSERT_NEAR(token.top[0].logprob, std::ranges::max(twin[i]), kBound);
      for (size_t rank = 0; rank < token.top.size(); ++rank) {
        const auto& [id, logprob] = token.top[rank];
        ASSERT_NEAR(logprob, at(id), kBound) << name << i;
        ASSERT_LE(logprob, token.top[rank == 0 ? 0 : rank - 1].logprob);
      }
    }
  }
}

// Where two of a row's best are among those that transformers' logits were kept
// of, their distance is theirs.
TEST_F(EnginePromptLogprobsTest, LieAsFarApartAsTheGoldenLogits) {
  int num_pairs = 0;
  for (const std::string& name : TinyCaseNames()) {
    LoadModel(name);
    const auto rotation = [&](int64_t planned_tokens) {
      const RopeConfig& rope = model_->config().rope;
      std::vector<float> frequencies(static_cast<size_t>(rope.rotary_dim / 2));
      float scale = 1;
      RopeFrequencies(rope, planned_tokens, frequencies, &scale);
      frequencies.push_back(scale);
      return frequencies;
    };
    const int64_t planned_tokens =
        std::ssize(golden_.tokens) + Asked().max_tokens;
    if (rotation(planned_tokens) != rotation(golden_.planned_total_tokens)) {
      continue;
    }
    const auto listener = Run(*MakeEngine({}), Asked(kMaxTopLogprobs));
    const auto& ids = golden_.logit_ids;
    for (size_t i = 0; i < listener.prompt.size(); ++i) {
      std::vector<std::pair<float, float>> known;  // ours, theirs
      for (const auto& [id, logprob] : listener.prompt[i].top) {
        const auto found = std::ranges::find(ids, id);
        if (found == ids.end()) continue;
        const auto place = static_cast<size_t>(found - ids.begin());
        known.emplace_back(logprob, golden_.logits[i * ids.size() + place]);
      }
      for (size_t k = 1; k < known.size(); ++k, ++num_pairs) {
        EXPECT_NEAR(known[k].first - known[0].first,
                    known[k].second - known[0].second, 5e-4)
            << name << i;
      }
    }
  }
  EXPECT_GT(num_pairs, 100);
}

TEST_F(EnginePromptLogprobsTest, DoNotDependOnChunksRangesOrRuns) {
  LoadModel(TinyCaseNames().front());
  const Bits whole = RunWith({.batch_invariant = true});
  EXPECT_EQ(whole.size(), (golden_.tokens.size() - 1) * 6);
  for (const int rows : {32, 64}) {
    for (const int layers : {0, 1}) {
      for (const int run : {1, 7, 2048}) {
        EXPECT_EQ(RunWith({.max_num_batched_tokens = rows,
                           .batch_invariant = true,
                           .layers_per_step = layers,
                           .max_scored_rows = run}),
                  whole)
            << rows << " " << layers << " " << run;
      }
    }
  }
}

TEST_F(EnginePromptLogprobsTest, DoNotDependOnTheCompany) {
  LoadModel(TinyCaseNames().front());
  const EngineOptions options = {.max_num_batched_tokens = 64,
                                 .batch_invariant = true};
  const Bits alone = RunWith(options);
  const auto engine = MakeEngine(options);
  std::vector<PromptListener> listeners(4);
  for (size_t i = 0; i < listeners.size(); ++i) {
    listeners[i].wanted = i % 2 == 0;
    Request request = Asked();
    if (i % 2 == 1) request.prompt_logprobs.reset();
    ASSERT_TRUE(engine->Add(request, &listeners[i]).ok());
  }
  StepToEnd(*engine);
  EXPECT_EQ(listeners[0].AllBits(), alone);
  EXPECT_EQ(listeners[2].AllBits(), alone);
}

// What a cached row said nobody has kept.
TEST_F(EnginePromptLogprobsTest, AreComputedThoughThePromptIsCached) {
  LoadModel(TinyCaseNames().front());
  const EngineOptions options = {.batch_invariant = true};
  const Bits fresh = RunWith(options);
  const auto engine = MakeEngine(options);
  Run(*engine, Asked(std::nullopt));
  const auto asked = Run(*engine, Asked());
  EXPECT_EQ(asked.AllBits(), fresh);
  EXPECT_EQ(asked.completion.num_cached_tokens, 0);
  const auto after = Run(*engine, Asked(std::nullopt));
  EXPECT_EQ(after.completion.num_cached_tokens, 64);
}

// It is preempted between two chunks, while another leaves the whole prompt.
TEST_F(EnginePromptLogprobsTest, AreToldOnceThoughItGaveWay) {
  LoadModel(TinyCaseNames().front());
  const EngineOptions options = {
      .max_num_seqs = 1, .max_num_batched_tokens = 32, .batch_invariant = true};
  const Bits fresh = RunWith(options);
  for (const int num_steps : {1, 2, 3}) {
    const auto engine = MakeEngine(options);
    PromptListener listener, other;
    other.wanted = false;
    const SequenceId id = engine->Add(Asked(), &listener).value();
    for (int i = 0; i < num_steps; ++i) ASSERT_TRUE(engine->Step().value());
    engine->Preempt(id);
    Request first = Asked(std::nullopt);
    first.priority = -1;
    first.max_tokens = 1;
    ASSERT_TRUE(engine->Add(first, &other).ok());
    StepToEnd(*engine);
    EXPECT_EQ(listener.completion.num_preemptions, 1);
    EXPECT_EQ(listener.AllBits(), fresh) << num_steps;
  }
}

TEST_F(EnginePromptLogprobsTest, AreEmptyOfAPromptOfOneToken) {
  LoadModel(TinyCaseNames().front());
  Request request = Asked();
  request.prompt.resize(1);
  EXPECT_TRUE(Run(*MakeEngine({}), request).prompt.empty());
}

TEST_F(EnginePromptLogprobsTest, AreRefusedWhereNobodyMayAsk) {
  LoadModel(TinyCaseNames().front());
  const RequestLimits none = {.vocab_size = model_->config().vocab_size,
                              .max_model_len = 96,
                              .num_pages = 8};
  EXPECT_EQ(none.Check(Asked()).error().message,
            "prompt-logprobs must be absent where max-scored-rows is 0, is 5");
  const auto engine = MakeEngine({});
  PromptListener listener;
  EXPECT_EQ(engine->Add(Asked(21), &listener).error().message,
            "prompt-logprobs must be in [0, 20], is 21");
}

}  // namespace
}  // namespace winnow
