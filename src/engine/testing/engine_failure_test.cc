// What a request hears, and what is left, where a step goes wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/hooked_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Keeps the ids and the end.
class FailureListener : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    EXPECT_FALSE(finished);
    ids.push_back(token.token_id);
    num_top.push_back(token.top.size());
    return true;
  }
  void OnFinish(const Completion& given) override {
    EXPECT_FALSE(finished);
    finished = true;
    completion = given;
  }

  std::vector<int32_t> ids;
  std::vector<size_t> num_top;
  Completion completion;
  bool finished = false;
};

class EngineFailureTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
    options.device_kv_bytes = 4 << 20;
    options.max_model_len = 96;
    options.batch_invariant = true;
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  // The golden prompt from `first` on.
  Request RequestFrom(int first) const {
    Request request;
    request.prompt.assign(golden_.tokens.begin() + first, golden_.tokens.end());
    request.max_tokens = 6;
    request.sampling.temperature = 0;
    return request;
  }

  static void ExpectAllIsGivenBack(const Engine& engine) {
    EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
    EXPECT_EQ(engine.kv().num_sequences(), 0);
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
  }

  HookedBackend backend_{MakeCpuBackend({.num_threads = 1})};
  std::unique_ptr<Model> model_;
  TinyCase golden_;
};

TEST_F(EngineFailureTest, AFailedDeviceEndsEveryRequestAndTheEngine) {
  // Whole steps, and one that fails with a chunk between two layer ranges.
  for (const int layers_per_step : {0, 1}) {
    const std::unique_ptr<Engine> engine =
        MakeEngine({.max_num_seqs = 2,
                    .max_num_batched_tokens = 160,
                    .layers_per_step = layers_per_step});
    std::vector<FailureListener> listeners(3);  // the third waits its turn
    for (FailureListener& listener : listeners) {
      ASSERT_TRUE(engine->Add(RequestFrom(20), &listener).ok());
    }
    FailureListener prefix, fork;
    const Request forked = RequestFrom(20);
    Request request = forked;
    request.prefix = *engine->AddPrefix(
        {{forked.prompt.begin(), forked.prompt.end() - 5}, 80}, &prefix);
    ASSERT_TRUE(engine->Add(request, &fork).ok());
    ASSERT_TRUE(*engine->Step());
    backend_.on_wait = [] {
      return MakeError(ErrorCode::kIo, "device cpu:7 fell off the bus");
    };
    const Result<bool> failed = engine->Step();
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().message, "device cpu:7 fell off the bus");
    for (const FailureListener* listener :
         {&listeners[0], &listeners[1], &listeners[2], &prefix, &fork}) {
      ASSERT_TRUE(listener->finished);
      EXPECT_EQ(listener->completion.reason, FinishReason::kError);
      ASSERT_TRUE(listener->completion.error.has_value());
      EXPECT_EQ(listener->completion.error->code, ErrorCode::kIo);
      EXPECT_EQ(listener->completion.error->message,
                "device cpu:7 fell off the bus");
    }
    ExpectAllIsGivenBack(*engine);
    // The device may work again; what it holds is not known, so nothing may
    // go on.
    backend_.on_wait = nullptr;
    FailureListener late;
    EXPECT_EQ(engine->Step().error().message, failed.error().message);
    EXPECT_EQ(engine->Add(RequestFrom(20), &late).error().message,
              failed.error().message);
    EXPECT_FALSE(late.finished);
  }
}

TEST_F(EngineFailureTest, ARequestWithoutATokenEndsAndTheOthersGoOn) {
  const std::unique_ptr<Engine> engine = MakeEngine({});
  FailureListener alone;
  ASSERT_TRUE(engine->Add(RequestFrom(30), &alone).ok());
  while (*engine->Step()) {
  }
  ASSERT_EQ(alone.ids.size(), 6u);

  int num_samples = 0;
  backend_.pre_sample = [&num_samples](const SampleArgs& args) {
    if (++num_samples != 2) return;
    auto* first = args.logits.Row<float>(0);
    std::fill(first, first + args.logits.dim(1), kNan);
  };
  std::vector<FailureListener> listeners(2);
  ASSERT_TRUE(engine->Add(RequestFrom(50), &listeners[0]).ok());
  ASSERT_TRUE(engine->Add(RequestFrom(30), &listeners[1]).ok());
  while (*engine->Step()) {
  }
  ASSERT_TRUE(listeners[0].finished);
  EXPECT_EQ(listeners[0].completion.reason, FinishReason::kError);
  ASSERT_TRUE(listeners[0].completion.error.has_value());
  EXPECT_EQ(listeners[0].completion.error->code, ErrorCode::kCorrupt);
  EXPECT_EQ(listeners[0].completion.error->message,
            "no token is left to draw at position 31: every logit is NaN, "
            "-infinity or masked");
  EXPECT_EQ(listeners[0].ids.size(), 1u);
  EXPECT_EQ(listeners[0].completion.num_generated_tokens, 1);
  EXPECT_EQ(listeners[1].completion.reason, FinishReason::kLength);
  EXPECT_EQ(listeners[1].ids, alone.ids);
  ExpectAllIsGivenBack(*engine);
}

TEST_F(EngineFailureTest, TopLogprobsNameOnlyTokensThatCanBe) {
  backend_.pre_sample = [](const SampleArgs& args) {
    auto* logits = args.logits.Row<float>(0);
    std::fill(logits + 3, logits + args.logits.dim(1), kNan);
  };
  const std::unique_ptr<Engine> engine = MakeEngine({});
  FailureListener listener;
  Request request = RequestFrom(50);
  request.sampling.logprobs = 5;
  ASSERT_TRUE(engine->Add(request, &listener).ok());
  while (*engine->Step()) {
  }
  EXPECT_EQ(listener.num_top, std::vector<size_t>(6, 3));
}

}  // namespace
}  // namespace winnow
