// A link that is slow, and by how much nobody knows before: who reads over it
// gets the answer that it gets from a device that has all, and who generates
// beside it is still held to the bound of a step's time.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

constexpr double kBoundMs = 40;
// A layer of a step waits so long for what it lacks at most.
constexpr int kMostLinkMs = 4;

class EngineSlowLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    backend_.pre_fetch = [this](const FetchArgs&) {
      ++num_brought_;
      std::this_thread::sleep_for(std::chrono::microseconds(
          random_() % (1000u * static_cast<unsigned>(link_ms_) + 1)));
    };
  }

  // With `num_host_pages` requests by a selector have four slots a layer; else
  // all is whole.
  std::unique_ptr<Engine> MakeEngine(int64_t num_host_pages) {
    const int64_t page_bytes =
        kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
    EngineOptions options = {.max_model_len = 320,
                             .max_num_batched_tokens = 256,
                             .max_step_ms = kBoundMs,
                             .device_kv_bytes = 60 * page_bytes,
                             .host_kv_bytes = num_host_pages * page_bytes,
                             .batch_invariant = true,
                             .prefix_caching = false,
                             .selectors = {kMeanOfSlots}};
    if (num_host_pages > 0) options.cache_budget = CacheBudget{.tokens = 32};
    return Engine::Create(backend_, *model_, options).value();
  }
  Request Ask(int which, int num_tokens, int max_tokens, int selector) const {
    return TinyRequest(golden_, which, num_tokens, max_tokens, selector);
  }
  void ExpectAnswer(const RecordingObserver& got, const Request& request) {
    const std::unique_ptr<Engine> engine = MakeEngine(0);
    RecordingObserver alone;
    ASSERT_TRUE(engine->Add(request, &alone).ok());
    while (StepOf(*engine)) {
    }
    EXPECT_TRUE(got.finished);
    EXPECT_EQ(got.bits, alone.bits);
  }

  HookedBackend backend_{MakeCpuBackend({.num_threads = 1})};
  std::unique_ptr<Model> model_;
  TinyCase golden_;
  std::mt19937 random_{7};
  int link_ms_ = 0;
  int num_brought_ = 0;
};

TEST_F(EngineSlowLinkTest, WhoReadsOverItGetsTheAnswerOfTheResident) {
  const std::vector<Request> requests = {Ask(1, 230, 40, 0), Ask(2, 200, 40, 0),
                                         Ask(3, 90, 60, -1)};
  const std::unique_ptr<Engine> engine = MakeEngine(40);
  std::vector<RecordingObserver> listeners(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
  }
  // Slower and slower, and then as it was.
  for (int step = 0; StepOf(*engine); ++step) {
    link_ms_ = step < 40 ? step / 10 : 0;
  }
  EXPECT_GT(num_brought_, 0);
  EXPECT_GT(listeners[0].completion.kv.misses, 0);
  EXPECT_EQ(listeners[2].completion.kv.misses, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(listeners[i].completion.num_preemptions, 0);
    ExpectAnswer(listeners[i], requests[i]);
  }
}

// One who reads over the link, one who generates beside it, and prompts. The
// time that the link takes is part of what steps are seen to take, and so of
// what the next one is given room for.
TEST_F(EngineSlowLinkTest, WhoGeneratesBesideItIsHeldToTheBound) {
  link_ms_ = kMostLinkMs;
  const std::unique_ptr<Engine> engine = MakeEngine(60);
  const Request beside = Ask(3, 40, 270, -1);
  RecordingObserver listener;
  ASSERT_TRUE(engine->Add(beside, &listener).ok());
  while (listener.bits.empty()) StepOf(*engine);
  std::vector<RecordingObserver> others(24);
  size_t num_asked = 0;
  while (!listener.finished) {
    const bool asks = num_asked < others.size() &&
                      (num_asked == 0 || !others[num_asked - 1].bits.empty());
    if (asks) {
      const int which = static_cast<int>(num_asked) + 4;
      const bool reads_over_it = num_asked % 2 == 0;
      const Request other =
          reads_over_it ? Ask(which, 230, 30, 0) : Ask(which, 250, 1, -1);
      ASSERT_TRUE(engine->Add(other, &others[num_asked]).ok());
      ++num_asked;
    }
    StepOf(*engine);
  }
  EXPECT_GT(num_brought_, 0);
  ExpectAnswer(listener, beside);
  // As StepCostFit promises, whatever steps take.
  const BoundedSteps::Count& steps =
      engine->meter().bounded_steps().with_chunks;
  EXPECT_GT(steps.num_steps, 20u);
  const double most_over =
      StepCostFit::kOverShare * static_cast<double>(steps.num_steps) +
      std::log(StepCostFit::kMaxRatio) / StepCostFit::kMarginRate + 1;
  EXPECT_LE(static_cast<double>(steps.num_over), most_over);
}

}  // namespace
}  // namespace winnow
