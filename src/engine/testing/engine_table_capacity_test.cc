// Page tables where they have less room than requests times the longest: more
// run than with their longest lives promised, who lacks table pages makes the
// youngest are preempted, and answers are those of requests alone, bit by bit.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class EngineTableCapacityTest : public testing::Test {
 protected:
  // Room in tables for no more than the device has, whoever shares it.
  static constexpr int64_t kNumPages = 40;
  static constexpr int kMaxLength = 1024;
  static constexpr int kPrompt = 10 * kPageTokens + 20;

  void SetUp() override {
    golden_ = ReadTinyCase("llama_yarn");  // of the longest context
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
    const int64_t page_bytes =
        kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
    options.device_kv_bytes = kNumPages * page_bytes;
    options.host_kv_bytes *= page_bytes;
    options.max_model_len = kMaxLength;
    options.batch_invariant = true;
    options.on_decision = [this](const Decision& decision) {
      if (const auto* made = std::get_if<ScheduleDecision>(&decision)) {
        num_admitted_ += std::ssize(made->schedule.admitted);
      }
      if (const auto* gave_way = std::get_if<VictimDecision>(&decision)) {
        victims_.push_back(gave_way->victim.value());
      }
    };
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(*backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  // Its whole pages are those of every other one.
  Request Ask(int which, int max_tokens) const {
    Request request;
    for (int i = 0; i < kPrompt; ++i) {
      const int first = i < kPrompt - 2 ? 0 : 1 + which;
      request.prompt.push_back(TinyToken(golden_, first, i));
    }
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }

  static void Step(Engine& engine) {
    const Result<bool> more = engine.Step();
    CHECK(more.ok(), "{}", more.error().message);
    ASSERT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }
  // The prompt's pages are there, and short answers are expected.
  static void Begin(Engine& engine, Request request) {
    request.max_tokens = 1;
    RecordingObserver listener;
    CHECK(engine.Add(std::move(request), &listener).ok());
    while (!listener.finished) Step(engine);
  }
  std::vector<std::pair<int32_t, float>> Alone(const Request& request) {
    const std::unique_ptr<Engine> engine =
        MakeEngine({.max_num_seqs = 1, .prefix_caching = false});
    RecordingObserver listener;
    CHECK(engine->Add(request, &listener).ok());
    while (!listener.finished) Step(*engine);
    return listener.bits;
  }
  // How many run from the first step on, of requests that come together.
  int64_t RunTogether(Engine& engine, const std::vector<Request>& requests) {
    std::vector<RecordingObserver> listeners(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      CHECK(engine.Add(requests[i], &listeners[i]).ok());
    }
    num_admitted_ = 0;
    victims_.clear();
    Step(engine);
    const int64_t num_first = num_admitted_;
    while (!std::ranges::all_of(listeners, &RecordingObserver::finished)) {
      Step(engine);
    }
    const std::vector<SequenceId> victims = victims_;
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(listeners[i].bits, Alone(requests[i])) << i;
    }
    victims_ = victims;
    return num_first;
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 2});
  int64_t num_admitted_ = 0;
  std::vector<SequenceId> victims_;
};

// Twelve pages each, and 24 at their longest: of the 40 three have room, where
// all life long one would.
TEST_F(EngineTableCapacityTest, RequestsArePromisedWhatIsExpectedOfThem) {
  const std::unique_ptr<Engine> engine = MakeEngine(
      {.max_num_seqs = 6, .max_table_sharers = 1, .host_kv_bytes = 30});
  Begin(*engine, Ask(9, 1));
  std::vector<RecordingObserver> listeners(4);
  std::vector<SequenceId> ids;
  for (int which = 0; which < 4; ++which) {
    const auto index = static_cast<size_t>(which);
    ids.push_back(engine->Add(Ask(which, 400), &listeners[index]).value());
  }
  num_admitted_ = 0;
  Step(*engine);
  EXPECT_EQ(num_admitted_, 3);
  for (const SequenceId id : ids) engine->Cancel(id);
}

// Also where a step is planned before the one ahead of it has landed.
TEST_F(EngineTableCapacityTest, WhoLacksTablePagesMakesTheYoungestGiveWay) {
  for (const bool looks_ahead : {false, true}) {
    const std::unique_ptr<Engine> engine =
        MakeEngine({.max_num_seqs = 6,
                    .max_table_sharers = 1,
                    .host_kv_bytes = 30,
                    .looks_ahead = looks_ahead});
    Begin(*engine, Ask(9, 1));
    std::vector<Request> requests;
    for (int which = 0; which < 3; ++which) requests.push_back(Ask(which, 110));
    EXPECT_EQ(RunTogether(*engine, requests), 3);
    // Each with four pages behind the ten that all share.
    EXPECT_EQ(victims_, std::vector<SequenceId>{SequenceId(4)});
  }
}

// Without a host nobody comes back from where he was preempted to: whole lives
// are promised.
TEST_F(EngineTableCapacityTest, WithoutAHostNobodyLacksTablePages) {
  const std::unique_ptr<Engine> engine =
      MakeEngine({.max_num_seqs = 6, .max_table_sharers = 1});
  Begin(*engine, Ask(9, 1));
  std::vector<Request> requests;
  for (int which = 0; which < 3; ++which) requests.push_back(Ask(which, 110));
  EXPECT_EQ(RunTogether(*engine, requests), 2);
  EXPECT_TRUE(victims_.empty());
}

// What a prefix has that is held is in nobody's table, but its forks'.
TEST_F(EngineTableCapacityTest, ForksGiveWayForTablePagesToo) {
  const std::unique_ptr<Engine> engine = MakeEngine(
      {.max_num_seqs = 6, .max_table_sharers = 1, .host_kv_bytes = 30});
  RecordingObserver holder;
  Prefix prefix;
  prefix.tokens = Ask(0, 1).prompt;
  prefix.tokens.resize(10 * kPageTokens);
  prefix.max_length = kPrompt + 110;
  const SequenceId id = engine->AddPrefix(prefix, &holder).value();
  Begin(*engine, Ask(9, 1));
  // The fork's whole life of 14 pages and 12 of each other.
  std::vector<Request> requests = {Ask(0, 110), Ask(1, 110), Ask(2, 110)};
  requests[2].prefix = id;
  std::vector<RecordingObserver> listeners(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
  }
  engine->Release(id);
  while (!holder.finished) Step(*engine);
  EXPECT_FALSE(victims_.empty());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request request = requests[i];
    request.prefix.reset();
    EXPECT_EQ(listeners[i].bits, Alone(request)) << i;
  }
}

}  // namespace
}  // namespace winnow
