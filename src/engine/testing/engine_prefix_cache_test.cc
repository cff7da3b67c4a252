// Requests that begin with what others left behind in the pool: their answers
// are those of requests that did not, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

const std::vector<std::string> kPrefixCacheSelectors = {
    "mean:budget=16,block=8,recent=8",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=80",
    "moba:block=32,budget=32",
    "tidal:budget=16,select_layers=0",
    "dense",
    "clusterkv:budget=24,segment=32,cluster=4,sink=4,dense_layers=none",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8"};

class EnginePrefixCacheTest : public testing::Test {
 protected:
  static constexpr int kMean = 0, kInfLlm = 1, kMoba = 2;
  static constexpr int kMaxLength = 192;

  void LoadModel(const std::string& name, Dtype dtype) {
    golden_ = ReadTinyCase(name);
    model_ = LoadTinyModel(golden_, dtype);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options,
                                     int64_t num_pages = 40) {
    options.device_kv_bytes =
        num_pages * kPageTokens *
        KvBytesPerToken(model_->config(), model_->dtypes().kv);
    options.max_model_len = std::min(
        kMaxLength, static_cast<int>(model_->config().max_context_tokens));
    options.selectors = kPrefixCacheSelectors;
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(*backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages = 40) {
    return MakeEngine({.batch_invariant = true}, num_pages);
  }

  // Texts of one `family` begin alike, up to where `which` makes them differ.
  Request Ask(int family, int num_shared, int num_tokens, int which) const {
    Request request;
    for (int i = 0; i < num_tokens; ++i) {
      const int first = 3 * family + (i < num_shared ? 0 : 11 + which);
      request.prompt.push_back(TinyToken(golden_, first, i));
    }
    request.max_tokens = 6;
    request.sampling.temperature = 0;
    return request;
  }

  static void ExpectSound(const Engine& engine) {
    EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }
  static void RunToEnd(Engine& engine) {
    while (true) {
      const Result<bool> more = engine.Step();
      CHECK(more.ok(), "{}", more.error().message);
      ExpectSound(engine);
      if (!*more) break;
    }
  }
  static RecordingObserver Run(Engine& engine, const Request& request) {
    RecordingObserver listener;
    const Result<SequenceId> id = engine.Add(request, &listener);
    CHECK(id.ok(), "{}", id.error().message);
    RunToEnd(engine);
    CHECK(listener.finished);
    return listener;
  }
  // In an engine that keeps nothing.
  RecordingObserver Alone(const Request& request, bool batch_invariant = true) {
    const std::unique_ptr<Engine> engine = MakeEngine(
        {.batch_invariant = batch_invariant, .prefix_caching = false});
    const RecordingObserver listener = Run(*engine, request);
    EXPECT_EQ(listener.completion.num_cached_tokens, 0);
    return listener;
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Model> model_;
  TinyCase golden_;
};

struct BitsCase {
  const char* model;
  Dtype dtype;
  bool batch_invariant;
};

class EnginePrefixCacheBitsTest : public EnginePrefixCacheTest,
                                  public testing::WithParamInterface<BitsCase> {
};

// Whatever selects, in chunks or not, layer by layer or not.
TEST_P(EnginePrefixCacheBitsTest, AreThoseOfRequestsAlone) {
  const auto& [name, dtype, batch_invariant] = GetParam();
  LoadModel(name, dtype);
  const int num_selectors = static_cast<int>(kPrefixCacheSelectors.size());
  std::vector<std::pair<int, int>> steps = {{0, 0}};
  if (batch_invariant) steps = {{2048, 0}, {40, 0}, {64, 1}};
  for (const auto& [rows, layers] : steps) {
    EngineOptions options = {.batch_invariant = batch_invariant,
                             .layers_per_step = layers};
    if (rows > 0) options.max_num_batched_tokens = rows;
    const std::unique_ptr<Engine> engine = MakeEngine(options);
    for (int selector = -1; selector < num_selectors; ++selector) {
      for (const int num_question : {0, 20}) {
        SCOPED_TRACE(fmt::format("rows {} layers {} selector {} question {}",
                                 rows, layers, selector, num_question));
        Request first = Ask(selector, 70, 100, 0);
        Request second = Ask(selector, 70, 110, 1);
        for (Request* request : {&first, &second}) {
          request->selector = selector;
          request->num_question_tokens = num_question;
        }
        // Leaves summaries of its own where those of the first lay.
        Request other = Ask(selector + 30, 0, 110, 2);
        other.selector = selector;
        other.cache_prefix = false;
        Run(*engine, first);
        Run(*engine, other);
        const RecordingObserver got = Run(*engine, second);
        EXPECT_EQ(got.completion.num_cached_tokens, 64);
        EXPECT_EQ(got.bits, Alone(second, batch_invariant).bits);
        // Once more: now all but what a row is needed for is there.
        Run(*engine, other);
        const RecordingObserver again = Run(*engine, second);
        EXPECT_EQ(again.completion.num_cached_tokens,
                  num_question == 0 ? 96 : 64);
        EXPECT_EQ(again.bits, got.bits);
      }
    }
    EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, EnginePrefixCacheBitsTest,
    testing::Values(BitsCase{"llama", Dtype::kFloat32, false},
                    BitsCase{"llama", Dtype::kFloat32, true},
                    BitsCase{"qwen3", Dtype::kBFloat16, true}),
    [](const auto& instance) {
      return fmt::format("{}{}", DtypeName(instance.param.dtype),
                         instance.param.batch_invariant ? "Invariant" : "");
    });

TEST_F(EnginePrefixCacheTest, OneRowIsAlwaysComputed) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine();
  for (const auto& [num_tokens, num_cached] :
       {std::pair(31, 0), {32, 0}, {33, 32}, {64, 32}, {65, 64}}) {
    const Request request = Ask(num_tokens, 65, num_tokens, 0);
    const RecordingObserver first = Run(*engine, request);
    const RecordingObserver second = Run(*engine, request);
    EXPECT_EQ(first.completion.num_cached_tokens, 0) << num_tokens;
    EXPECT_EQ(second.completion.num_cached_tokens, num_cached) << num_tokens;
    EXPECT_EQ(second.bits, first.bits) << num_tokens;
  }
}

TEST_F(EnginePrefixCacheTest, WhatWasGeneratedIsFoundAlsoAfterACancel) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine(EngineOptions());
  Request first = Ask(0, 60, 60, 0);
  first.max_tokens = 50;
  const RecordingObserver told = Run(*engine, first);
  Request second = Ask(0, 60, 60, 0);
  for (const auto& [token, logprob] : told.bits) {
    second.prompt.push_back(token);
  }
  second.prompt.insert(second.prompt.end(), 40, 3);
  // 60 + 49 tokens had KV; the last one was never fed back.
  EXPECT_EQ(Run(*engine, second).completion.num_cached_tokens, 96);
  // Now also pages of prefill rows below those that were generated.
  EXPECT_EQ(Run(*engine, second).completion.num_cached_tokens, 128);
  // Another selector computed them otherwise, up to what the prompt said.
  second.selector = kMean;
  EXPECT_EQ(Run(*engine, second).completion.num_cached_tokens, 32);

  RecordingObserver cancelled;
  const SequenceId id = *engine->Add(Ask(5, 100, 100, 0), &cancelled);
  ASSERT_TRUE(*engine->Step());
  engine->Cancel(id);
  EXPECT_EQ(Run(*engine, Ask(5, 100, 100, 0)).completion.num_cached_tokens, 96);
}

TEST_F(EnginePrefixCacheTest, WhereBatchesAreInvariantPromptsAloneAreFound) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine();
  Request first = Ask(0, 60, 60, 0);
  first.max_tokens = 50;
  const RecordingObserver told = Run(*engine, first);
  Request second = Ask(0, 60, 60, 0);
  for (const auto& [token, logprob] : told.bits) {
    second.prompt.push_back(token);
  }
  const RecordingObserver got = Run(*engine, second);
  EXPECT_EQ(got.completion.num_cached_tokens, 32);
  EXPECT_EQ(got.bits, Alone(second).bits);
}

TEST_F(EnginePrefixCacheTest, SaltsAndThoseWhoDoNotWishAreApart) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine();
  const auto num_cached = [&](std::string salt, bool cache_prefix) {
    Request request = Ask(0, 100, 100, 0);
    request.cache_salt = std::move(salt);
    request.cache_prefix = cache_prefix;
    return Run(*engine, request).completion.num_cached_tokens;
  };
  EXPECT_EQ(num_cached("", false), 0);
  EXPECT_EQ(num_cached("", true), 0);
  EXPECT_EQ(num_cached("", false), 0);
  EXPECT_EQ(num_cached("", true), 96);
  EXPECT_EQ(num_cached("a", true), 0);
  EXPECT_EQ(num_cached("b", true), 0);
  EXPECT_EQ(num_cached("a", true), 96);
  Request request = Ask(0, 100, 100, 0);
  request.cache_salt.assign(257, 'x');
  RecordingObserver never;
  EXPECT_EQ(engine->Add(request, &never).error().message,
            "cache_salt must be at most 256 bytes, is 257");
}

TEST_F(EnginePrefixCacheTest, SelectorsAreApartWhereTheyActInThePrompt) {
  LoadModel("llama", Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine();
  const auto num_cached = [&](int selector, int num_tokens) {
    Request request = Ask(0, 130, num_tokens, 0);
    request.selector = selector;
    return Run(*engine, request).completion.num_cached_tokens;
  };
  EXPECT_EQ(num_cached(-1, 100), 0);
  EXPECT_EQ(num_cached(kMean, 100), 96);
  EXPECT_EQ(num_cached(kMoba, 100), 0);
  EXPECT_EQ(num_cached(kMoba, 130), 96);
  EXPECT_EQ(num_cached(kInfLlm, 100), 0);
  EXPECT_EQ(num_cached(kInfLlm, 130), 96);
  // Shorter than dense_len it reads everything.
  EXPECT_EQ(num_cached(kInfLlm, 79), 64);
}

// Three requests of five pages each, two of them the same ones: eleven in all.
TEST_F(EnginePrefixCacheTest, SharedPagesAreCountedOnce) {
  LoadModel("llama", Dtype::kFloat32);
  for (const int num_pages : {10, 11}) {
    const std::unique_ptr<Engine> engine = MakeEngine(num_pages);
    std::vector<RecordingObserver> listeners(3);
    const auto ask = [&](int i) {
      Request request = Ask(0, 70, 130, i);
      request.max_tokens = 20;
      return request;
    };
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(engine->Add(ask(i), &listeners[static_cast<size_t>(i)]).ok());
      const bool waits = i == 1;  // for the third
      EXPECT_TRUE(waits || *engine->Step());
    }
    const int num_running = num_pages == 11 ? 3 : 2;
    EXPECT_EQ(engine->kv().num_sequences(), num_running);
    EXPECT_EQ(engine->kv().prefixes().num_repeated(), 2 * (num_running - 1));
    RunToEnd(*engine);
    for (int i = 0; i < 3; ++i) {
      const RecordingObserver& listener = listeners[static_cast<size_t>(i)];
      EXPECT_EQ(listener.bits, Alone(ask(i)).bits);
      EXPECT_EQ(listener.completion.num_cached_tokens, i == 0 ? 0 : 64);
    }
    EXPECT_EQ(engine->kv().prefixes().num_repeated(), 0);
  }
}

// More texts than the pool holds, several at a time: what is idle makes room,
// what runs keeps its pages, and whatever is found is right.
TEST_F(EnginePrefixCacheTest, AnswersAreTheSameUnderPressure) {
  LoadModel("llama", Dtype::kFloat32);
  std::map<std::pair<int, int>, RecordingObserver> alone;
  const auto ask = [&](int family, int which) {
    Request request = Ask(family, 64, 100, which);
    request.max_tokens = 10 + which;
    return request;
  };
  for (uint32_t seed = 0; seed < 3; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t end) {
      return static_cast<int>(random() % end);
    };
    const std::unique_ptr<Engine> engine =
        MakeEngine({.max_num_seqs = 3,
                    .max_num_batched_tokens = 64,
                    .batch_invariant = true},
                   10);
    constexpr int kNumRequests = 30;
    std::vector<RecordingObserver> listeners(kNumRequests);
    std::vector<std::pair<int, int>> asked;
    for (RecordingObserver& listener : listeners) {
      asked.emplace_back(below(4), below(3));
      const auto& [family, which] = asked.back();
      ASSERT_TRUE(engine->Add(ask(family, which), &listener).ok());
      for (int i = below(6); i > 0; --i) {
        ASSERT_TRUE(engine->Step().ok());
        ExpectSound(*engine);
      }
    }
    RunToEnd(*engine);
    int num_cached = 0, num_uncached = 0;
    for (size_t i = 0; i < asked.size(); ++i) {
      const auto& [family, which] = asked[i];
      if (!alone.contains(asked[i])) {
        alone[asked[i]] = Alone(ask(family, which));
      }
      EXPECT_EQ(listeners[i].bits, alone[asked[i]].bits) << seed << " " << i;
      (listeners[i].completion.num_cached_tokens > 0 ? num_cached
                                                     : num_uncached)++;
    }
    EXPECT_GT(num_cached, 3);
    EXPECT_GT(num_uncached, 4) << "more than the families: some were evicted";
    EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
  }
}

}  // namespace
}  // namespace winnow
