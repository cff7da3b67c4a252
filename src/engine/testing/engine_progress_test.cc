// The law of progress: where nothing runs and nothing can, the oldest request
// ends with an error, and the others go on.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class EngineProgressTest : public testing::Test {
 protected:
  static constexpr int kLayers = 8;

  // Prompts of more than six pages are read layer by layer, through the host.
  std::unique_ptr<Engine> MakeEngine() const {
    const int64_t page_bytes =
        kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
    auto engine = Engine::Create(*backend_, *model_,
                                 {.max_model_len = 512,
                                  .device_kv_bytes = 6 * page_bytes,
                                  .host_kv_bytes = 12 * page_bytes,
                                  .cache_budget = CacheBudget{.tokens = 32},
                                  .batch_invariant = true,
                                  .selectors = {kMeanOfSlots}});
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  Request Ask(int which, int num_tokens, int selector) const {
    Request request;
    for (int i = 0; i < num_tokens; ++i) {
      request.prompt.push_back(TinyToken(golden_, 5 * which, i));
    }
    request.max_tokens = 4;
    request.sampling.temperature = 0;
    request.selector = selector;
    return request;
  }

  const TinyCase golden_ = WithLayers(ReadTinyCase("llama"), kLayers);
  const std::unique_ptr<Model> model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
};

// No request is let in that would have no room alone, so a bug is planted: what
// nobody knows of holds the host's pages.
TEST_F(EngineProgressTest, WhoCannotRunEndsAndTheOthersGoOn) {
  RecordingObserver alone, small, later;
  std::vector<RecordingObserver> large(2);
  const std::unique_ptr<Engine> engine = MakeEngine();
  ASSERT_TRUE(engine->Add(Ask(3, 40, -1), &alone).ok());
  while (*engine->Step()) {
  }
  auto& kv = const_cast<KvCache&>(engine->kv());
  const SequenceId leak(uint64_t{1} << 62);
  kv.Open(leak);
  kv.LendTo(leak, 0, kv.num_host_pages());
  ASSERT_EQ(kv.num_available_host_pages(), 0);

  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        engine->Add(Ask(i, 301, 0), &large[static_cast<size_t>(i)]).ok());
  }
  ASSERT_TRUE(engine->Add(Ask(3, 40, -1), &small).ok());
  // One at a time, as room may come with it.
  ASSERT_TRUE(*engine->Step());
  EXPECT_TRUE(large[0].finished);
  EXPECT_FALSE(large[1].finished);
  EXPECT_FALSE(small.finished);
  while (*engine->Step()) {
  }
  kv.Close(leak);
  for (const RecordingObserver& listener : large) {
    ASSERT_TRUE(listener.finished);
    EXPECT_EQ(listener.completion.reason, FinishReason::kError);
    ASSERT_TRUE(listener.completion.error.has_value());
    EXPECT_EQ(listener.completion.error->code, ErrorCode::kResourceExhausted);
    for (const char* words : {"cannot run", "301 tokens", "0 of 12 on the"}) {
      EXPECT_NE(listener.completion.error->message.find(words),
                std::string::npos)
          << listener.completion.error->message;
    }
  }
  EXPECT_TRUE(small.finished);
  EXPECT_EQ(small.bits, alone.bits);
  EXPECT_EQ(engine->counters().num_given_up, 2);
  EXPECT_EQ(kv.num_sequences(), 0);
  EXPECT_EQ(kv.num_free_pages(), kv.num_pages());

  // It is as good as ever where there is room again.
  ASSERT_TRUE(engine->Add(Ask(0, 301, 0), &later).ok());
  while (*engine->Step()) {
  }
  EXPECT_EQ(later.completion.reason, FinishReason::kLength);
  EXPECT_EQ(engine->counters().num_given_up, 2);
}

}  // namespace
}  // namespace winnow
