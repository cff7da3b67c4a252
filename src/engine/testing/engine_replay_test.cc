// Which steps a device may record and run again.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/testing/hooked_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

struct Silent : RequestObserver {
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override { return true; }
  void OnFinish(const Completion& completion) override {
    EXPECT_NE(completion.reason, FinishReason::kError);
  }
};

using Rows = std::vector<int64_t>;

TEST(EngineReplayTest, StepsOfOneDecodeRowARequestAloneAreReplayed) {
  const TinyCase golden = ReadTinyCase("llama");
  const std::unique_ptr<Model> model = LoadTinyModel(golden, Dtype::kBFloat16);
  HookedBackend backend(MakeCpuBackend({.num_threads = 1}));
  bool is_replay = false;
  Rows replayed, others;  // rows of each step
  backend.pre_replay = [&](auto) { is_replay = true; };
  backend.pre_embed = [&](const EmbedArgs& args) {
    (is_replay ? replayed : others).push_back(args.token_ids.dim(0));
    is_replay = false;
  };
  EngineOptions options;
  options.device_kv_bytes = 4 << 20;
  options.max_model_len = 96;
  options.max_num_batched_tokens = 64;
  const std::unique_ptr<Engine> engine =
      Engine::Create(backend, *model, options).value();
  Silent silent;
  const auto run = [&](std::span<const Request> requests) {
    for (const Request& request : requests) {
      ASSERT_TRUE(engine->Add(request, &silent).ok());
    }
    while (*engine->Step()) {
    }
  };
  Request request;
  request.prompt.assign(golden.tokens.begin(), golden.tokens.begin() + 33);
  request.max_tokens = 3;
  run({{request}});
  run({{request}});  // With 32 tokens that are cached.
  EXPECT_EQ(others, (Rows{33, 1}));
  EXPECT_EQ(replayed, (Rows{1, 1, 1, 1}));
  // Behind the same tokens two questions, which run as decode rows.
  request.prompt.assign(golden.tokens.begin(), golden.tokens.begin() + 60);
  request.num_question_tokens = 28;
  run({{request, request}});
  EXPECT_EQ(others, (Rows{33, 1, 56}));
  EXPECT_EQ(replayed, (Rows{1, 1, 1, 1, 2, 2}));
}

// Steps that complete a summary are recorded apart from those that do not.
TEST(EngineReplayTest, WhereNoSummaryIsCompletedNothingIsSummarised) {
  constexpr int kPrompt = 33, kAnswer = 20, kBlock = 8;
  const TinyCase golden = ReadTinyCase("llama");
  const std::unique_ptr<Model> model = LoadTinyModel(golden, Dtype::kBFloat16);
  HookedBackend backend(MakeCpuBackend({.num_threads = 1}));
  std::vector<int> summarised;    // layers of each step
  std::vector<std::string> keys;  // of each that is replayed
  backend.pre_replay = [&](std::span<const std::byte> key) {
    keys.emplace_back(reinterpret_cast<const char*>(key.data()), key.size());
  };
  backend.pre_embed = [&](const EmbedArgs&) { summarised.push_back(0); };
  backend.pre_summarize = [&] { ++summarised.back(); };
  EngineOptions options;
  options.device_kv_bytes = 4 << 20;
  options.max_model_len = 96;
  options.max_num_batched_tokens = 64;
  options.selectors = {"mean:budget=24,block=8,sink=0,recent=8"};
  const std::unique_ptr<Engine> engine =
      Engine::Create(backend, *model, options).value();
  Silent silent;
  Request request;
  request.prompt.assign(golden.tokens.begin(), golden.tokens.begin() + kPrompt);
  request.max_tokens = kAnswer;
  request.selector = 0;
  ASSERT_TRUE(engine->Add(request, &silent).ok());
  while (*engine->Step()) {
  }
  ASSERT_EQ(summarised.size(), static_cast<size_t>(kAnswer));
  ASSERT_EQ(keys.size(), static_cast<size_t>(kAnswer - 1));
  EXPECT_GT(summarised[0], 0);
  std::set<std::string> that_complete, others;
  for (size_t step = 1; step < summarised.size(); ++step) {
    const bool completes = (kPrompt + step) % kBlock == 0;
    EXPECT_EQ(summarised[step], completes ? summarised[0] : 0) << step;
    (completes ? that_complete : others).insert(keys[step - 1]);
  }
  EXPECT_EQ(that_complete.size(), 1u);
  EXPECT_EQ(others.size(), 1u);
  EXPECT_TRUE(that_complete != others);  // They are not to be printed.
}

}  // namespace
}  // namespace winnow
