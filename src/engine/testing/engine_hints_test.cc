// Hints in the engine: who asks for next ranks, who pays, and what they keep.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class EngineHintsTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    backend_.pre_select = [this](const SelectArgs& args) {
      num_asked_ += !args.next.lists.picks.empty();
    };
    backend_.pre_fetch = [this](const FetchArgs& args) {
      num_hinted_ += !args.hints.picks.empty();
    };
  }

  // Two requests at once, of which the second chooses nothing and is whole.
  std::vector<RecordingObserver> Run(std::optional<CacheBudget> budget,
                                     const HintOptions& hints) {
    const int64_t page_bytes =
        kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
    EngineOptions options = {.max_model_len = 320,
                             .device_kv_bytes = 40 * page_bytes,
                             .host_kv_bytes = 40 * page_bytes,
                             .cache_budget = budget,
                             .hints = hints,
                             .batch_invariant = true};
    options.selectors = {"mean:budget=24,block=8,sink=0,recent=8"};
    const std::unique_ptr<Engine> engine =
        Engine::Create(backend_, *model_, options).value();
    std::vector<RecordingObserver> listeners(2);
    for (int which = 0; which < 2; ++which) {
      Request request;
      for (int i = 0; i < 230; ++i) {
        request.prompt.push_back(TinyToken(golden_, 5 * which, i));
      }
      request.max_tokens = 60;
      request.sampling.temperature = 0;
      request.selector = which - 1;
      CHECK(engine->Add(request, &listeners[static_cast<size_t>(which)]).ok());
    }
    while (*engine->Step()) {
    }
    return listeners;
  }

  HookedBackend backend_{MakeCpuBackend({.num_threads = 1})};
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  int num_asked_ = 0, num_hinted_ = 0;  // calls
};

constexpr CacheBudget kLittle = {.tokens = 64};

TEST_F(EngineHintsTest, AreAskedForWherePagesAreNotWhole) {
  Run(kLittle, {});
  EXPECT_GT(num_asked_, 0);
  EXPECT_EQ(num_hinted_, num_asked_);
}

// With a host that is there and not needed.
TEST_F(EngineHintsTest, ResidentRequestsAskForNone) {
  Run({}, {});
  EXPECT_EQ(num_asked_, 0);
}

TEST_F(EngineHintsTest, CanBeLeftOut) {
  Run(kLittle, {.budget_times = 1});
  EXPECT_EQ(num_asked_, 0);
}

TEST_F(EngineHintsTest, AreNotAskedOfADeviceThatKnowsNone) {
  backend_.given_attributes = backend_.attributes();
  backend_.given_attributes->select_features = 0;
  const std::vector<RecordingObserver> without = Run(kLittle, {});
  EXPECT_EQ(num_asked_, 0);
  backend_.given_attributes.reset();
  const std::vector<RecordingObserver> with = Run(kLittle, {});
  EXPECT_GT(num_asked_, 0);
  for (size_t i = 0; i < with.size(); ++i) {
    EXPECT_EQ(with[i].bits, without[i].bits);
  }
}

// Kept alone they cost no byte that is not missed.
TEST_F(EngineHintsTest, WhatIsKeptIsNotFetchedAgain) {
  const KvCounters none = Run(kLittle, {.budget_times = 1})[1].completion.kv;
  const KvCounters kept = Run(kLittle, {.budget_times = 2})[1].completion.kv;
  const KvCounters fetched =
      Run(kLittle, {.budget_times = 2, .least_age = 1})[1].completion.kv;
  EXPECT_EQ(kept.picks, none.picks);
  EXPECT_EQ(kept.hints, 0);
  EXPECT_LT(kept.misses, none.misses);
  EXPECT_LT(kept.fetched_bytes, none.fetched_bytes);
  EXPECT_GT(fetched.hints, 0);
  EXPECT_GT(fetched.hints_used, 0);
}

}  // namespace
}  // namespace winnow
