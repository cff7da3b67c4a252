// Summaries where there are fewer segments than requests times the longest:
// who begins with the pages of another has its summaries too, who finds none
// waits or is preempted, and answers are those of requests alone, bit by bit.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class EngineSummaryCapacityTest : public testing::Test {
 protected:
  static constexpr int kMaxLength = 4096;
  static constexpr int64_t kNumPages = kMaxLength / kPageTokens;

  void SetUp() override {
    golden_ = ReadTinyCase("llama_yarn");  // of the longest context
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options,
                                     int64_t num_host_pages = 0,
                                     int64_t num_pages = kNumPages) {
    const int64_t page_bytes =
        kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
    options.device_kv_bytes = num_pages * page_bytes;
    options.host_kv_bytes = num_host_pages * page_bytes;
    options.max_model_len = kMaxLength;
    options.batch_invariant = true;
    if (options.selectors.empty()) {
      options.selectors = {"mean:budget=64,block=16,recent=16"};
    }
    options.on_decision = [this](const Decision& decision) {
      const auto* made = std::get_if<ScheduleDecision>(&decision);
      if (made != nullptr) num_admitted_ += std::ssize(made->schedule.admitted);
    };
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(*backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  // One text, but for its last two tokens.
  Request Ask(int num_tokens, int which, int max_tokens) const {
    Request request;
    for (int i = 0; i < num_tokens; ++i) {
      const int first = i < num_tokens - 2 ? 0 : 1 + which;
      request.prompt.push_back(TinyToken(golden_, first, i));
    }
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.selector = 0;
    return request;
  }

  static void Step(Engine& engine) {
    const Result<bool> more = engine.Step();
    CHECK(more.ok(), "{}", more.error().message);
    ASSERT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }
  static void Run(Engine& engine, const Request& request) {
    RecordingObserver listener;
    CHECK(engine.Add(request, &listener).ok());
    while (!listener.finished) Step(engine);
  }
  std::vector<std::pair<int32_t, float>> Alone(
      Request request, const std::vector<std::string>& selectors = {}) {
    const std::unique_ptr<Engine> engine = MakeEngine(
        {.max_num_seqs = 1, .prefix_caching = false, .selectors = selectors});
    request.prefix.reset();
    RecordingObserver listener;
    CHECK(engine->Add(request, &listener).ok());
    while (!listener.finished) Step(*engine);
    return listener.bits;
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 2});
  int64_t num_admitted_ = 0;
};

TEST_F(EngineSummaryCapacityTest, WhoBeginsWithTheSamePagesSharesSummaries) {
  const std::unique_ptr<Engine> engine = MakeEngine({.max_num_seqs = 4});
  const KvCache& segments = *engine->selectors().segments(0);
  EXPECT_EQ(segments.num_pages(), kNumPages / 32 + 2 * 4 + 2);
  std::vector<Request> requests;
  for (int which = 0; which < 3; ++which) {
    requests.push_back(Ask(3200, which, 20 - 4 * which));
  }
  std::vector<RecordingObserver> listeners(requests.size());
  ASSERT_TRUE(engine->Add(requests[0], &listeners[0]).ok());
  while (listeners[0].bits.empty()) Step(*engine);
  for (const size_t i : {1, 2}) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
  }
  Step(*engine);
  // Three that are full, and one each that is not.
  EXPECT_EQ(segments.NumRepeated(), 2 * 3);
  EXPECT_EQ(segments.num_pages() - segments.num_free_pages(), 3 + 3);
  while (!listeners[0].finished || !listeners[1].finished ||
         !listeners[2].finished) {
    Step(*engine);
  }
  EXPECT_EQ(segments.num_free_pages(), segments.num_pages());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(listeners[i].bits, Alone(requests[i])) << i;
  }
}

// Nobody has summaries yet of what all of them begin with: each that comes in
// this step is promised its own, so the last waits for those of the others.
TEST_F(EngineSummaryCapacityTest, WhoFindsNoRoomWaitsForWhatItMayShare) {
  const std::unique_ptr<Engine> engine = MakeEngine({.max_num_seqs = 4});
  Run(*engine, Ask(3200, 9, 1));
  std::vector<Request> requests;
  for (int which = 0; which < 4; ++which) {
    requests.push_back(Ask(3200, which, 8));
  }
  std::vector<RecordingObserver> listeners(requests.size());
  num_admitted_ = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
  }
  Step(*engine);
  EXPECT_EQ(num_admitted_, 3);  // of four segments each: there are 14
  Step(*engine);
  EXPECT_EQ(num_admitted_, 4);
  while (!listeners.back().finished) Step(*engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(listeners[i].bits, Alone(requests[i])) << i;
  }
}

// Nobody has summaries yet: the first in the step makes them, and the others
// but what is their own. What is so new is not told as being there before.
TEST_F(EngineSummaryCapacityTest, WhoComesInTheSameStepSharesWhatIsMadeInIt) {
  const std::vector<std::string> selectors = {
      "mean:budget=64,block=16,recent=16",
      "infllm-v2:budget=256,sink=0,recent=0,dense_len=64",
      "clusterkv:budget=64,segment=512,cluster=16,dense_layers=none",
      "retroinfer:budget=32,estimate=64,segment=512,cluster=16"};
  const auto all = static_cast<int>(selectors.size());
  for (int selector = 0; selector < all; ++selector) {
    auto hooked =
        std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 2}));
    // Of each Select, whether it is told which summaries were there before.
    std::vector<bool> told;
    hooked->pre_select = [&told](const SelectArgs& args) {
      told.push_back(!args.first_token.empty());
    };
    backend_ = std::move(hooked);
    const std::unique_ptr<Engine> engine =
        MakeEngine({.max_num_seqs = 4, .selectors = selectors});
    const KvCache& segments = *engine->selectors().segments(selector);
    std::vector<Request> requests;
    for (int which = 0; which < 4; ++which) {
      requests.push_back(Ask(3200, which, 20 - 4 * which));
      requests.back().selector = selector;
      requests.back().num_question_tokens = which == 1 ? 0 : 1;
    }
    Run(*engine, requests[3]);
    requests.pop_back();
    std::vector<RecordingObserver> listeners(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
    }
    told.clear();
    Step(*engine);
    EXPECT_EQ(segments.NumRepeated(), 2 * 3);
    EXPECT_EQ(segments.num_pages() - segments.num_free_pages(), 3 + 3);
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(std::ranges::count(told, true), 0);
    EXPECT_FALSE(engine->selectors().makes_for_others());
    told.clear();
    while (!std::ranges::all_of(listeners, &RecordingObserver::finished)) {
      Step(*engine);
    }
    EXPECT_EQ(std::ranges::count(told, false), 0);
    EXPECT_EQ(segments.num_free_pages(), segments.num_pages());
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(listeners[i].bits, Alone(requests[i], selectors))
          << selectors[static_cast<size_t>(selector)] << " " << i;
    }
  }
}

// At once, or while others go on.
TEST_F(EngineSummaryCapacityTest, WhoEndsLeavesWhatItMadeForOthers) {
  const std::unique_ptr<Engine> engine = MakeEngine({.max_num_seqs = 4});
  Run(*engine, Ask(3200, 9, 1));
  std::vector<Request> requests;
  for (int which = 0; which < 3; ++which) {
    requests.push_back(Ask(3200, which, which == 0 ? 1 : 12));
  }
  std::vector<RecordingObserver> listeners(requests.size());
  std::vector<SequenceId> ids;
  for (size_t i = 0; i < requests.size(); ++i) {
    ids.push_back(engine->Add(requests[i], &listeners[i]).value());
  }
  Step(*engine);
  EXPECT_TRUE(listeners[0].finished);
  const KvCache& segments = *engine->selectors().segments(0);
  EXPECT_EQ(segments.num_pages() - segments.num_free_pages(), 3 + 2);
  engine->Cancel(ids[1]);
  while (!listeners[2].finished) Step(*engine);
  EXPECT_EQ(segments.num_free_pages(), segments.num_pages());
  EXPECT_EQ(listeners[2].bits, Alone(requests[2]));
}

// Their prefix has none: the first step's share what is made in it, who comes
// later what is there, and admission knows.
TEST_F(EngineSummaryCapacityTest, ForksOfADensePrefixShareSummaries) {
  const std::unique_ptr<Engine> engine = MakeEngine({.max_num_seqs = 4});
  RecordingObserver holder;
  Prefix prefix;
  prefix.tokens = Ask(3190, 0, 1).prompt;
  prefix.max_length = 3240;
  const SequenceId id = engine->AddPrefix(prefix, &holder).value();
  std::vector<Request> requests;
  for (int which = 0; which < 5; ++which) {
    Request& request = requests.emplace_back();
    request.prompt = prefix.tokens;
    for (int i = 0; i < 10; ++i) {
      request.prompt.push_back(TinyToken(golden_, 1 + which, i));
    }
    request.num_question_tokens = which % 2;
    request.max_tokens = 30;
    request.sampling.temperature = 0;
    request.selector = 0;
    request.prefix = id;
  }
  std::vector<RecordingObserver> listeners(requests.size());
  const auto add = [&](size_t i) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
  };
  Step(*engine);
  for (const size_t i : {0, 1}) add(i);
  num_admitted_ = 0;
  while (num_admitted_ < 2) Step(*engine);
  const KvCache& segments = *engine->selectors().segments(0);
  EXPECT_EQ(segments.NumRepeated(), 3);
  EXPECT_EQ(segments.num_pages() - segments.num_free_pages(), 3 + 2);
  for (const size_t i : {2, 3, 4}) add(i);
  Step(*engine);
  EXPECT_EQ(num_admitted_, 4);
  EXPECT_EQ(segments.NumRepeated(), 3 * 3);
  EXPECT_EQ(segments.num_pages() - segments.num_free_pages(), 3 + 4);
  engine->Release(id);
  while (!holder.finished) Step(*engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(listeners[i].bits, Alone(requests[i])) << i;
  }
  EXPECT_EQ(segments.num_free_pages(), segments.num_pages());
}

// Held prefixes have 8 segments of 15, and a fork four: another one finds room
// for one of its own beside those that it shares.
TEST_F(EngineSummaryCapacityTest, AForkIsPromisedWhatOtherForksDoNotHave) {
  const std::unique_ptr<Engine> engine =
      MakeEngine({.max_num_seqs = 2}, /*num_host_pages=*/0, /*num_pages=*/304);
  std::vector<RecordingObserver> holders(3);
  std::vector<SequenceId> prefixes;
  for (int i = 0; i < 3; ++i) {
    const int num_tokens = i < 2 ? 3082 : 3190;
    Prefix prefix = {.tokens = {}, .max_length = num_tokens + 40};
    for (int j = 0; j < num_tokens; ++j) {
      prefix.tokens.push_back(TinyToken(golden_, i, j));
    }
    prefix.selector = i < 2 ? 0 : -1;
    prefixes.push_back(
        engine->AddPrefix(prefix, &holders[static_cast<size_t>(i)]).value());
  }
  while (num_admitted_ < 3) Step(*engine);
  Request request = Ask(3200, 0, 30);
  for (int i = 0; i < 3200; ++i) {
    request.prompt[static_cast<size_t>(i)] = TinyToken(golden_, 2, i);
  }
  request.prefix = prefixes[2];
  std::vector<RecordingObserver> listeners(2);
  for (RecordingObserver& listener : listeners) {
    ASSERT_TRUE(engine->Add(request, &listener).ok());
  }
  num_admitted_ = 0;
  while (num_admitted_ == 0) Step(*engine);
  EXPECT_EQ(num_admitted_, 1);
  Step(*engine);
  EXPECT_EQ(num_admitted_, 2);
  for (const SequenceId id : prefixes) engine->Release(id);
  while (!holders[2].finished) Step(*engine);
  const auto alone = Alone(request);
  for (const RecordingObserver& listener : listeners) {
    EXPECT_EQ(listener.bits, alone);
  }
}

// Its segments are there, and no summaries in them.
TEST_F(EngineSummaryCapacityTest, WhoIsBetweenItsLayersHasNothingToShare) {
  const std::unique_ptr<Engine> engine =
      MakeEngine({.max_num_seqs = 4, .layers_per_step = 1});
  Run(*engine, Ask(3200, 9, 1));
  const std::vector<Request> requests = {Ask(3200, 0, 4), Ask(3200, 1, 4),
                                         Ask(3200, 2, 4)};
  std::vector<RecordingObserver> listeners(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
    if (i > 0) Step(*engine);  // Two at once.
  }
  EXPECT_EQ(engine->selectors().segments(0)->NumRepeated(), 0);
  while (!listeners.back().finished) Step(*engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(listeners[i].bits, Alone(requests[i])) << i;
  }
}

// Expected to end in the segment that they are in, which they do not: pages
// there are, but no segments, and the youngest are preempted. (Layer by layer
// nobody shares what another one of its step makes.)
TEST_F(EngineSummaryCapacityTest, WhoLacksSegmentsMakesTheYoungestGiveWay) {
  constexpr int kNumRequests = 11, kPrompt = 3010;
  const std::unique_ptr<Engine> engine = MakeEngine(
      {.max_num_seqs = 14, .layers_per_step = 1}, /*num_host_pages=*/30);
  Run(*engine, Ask(kPrompt, 9, 1));
  const KvCache& segments = *engine->selectors().segments(0);
  ASSERT_EQ(segments.num_pages(), 34);
  std::vector<Request> requests;
  for (int i = 0; i < kNumRequests; ++i) {
    requests.push_back(Ask(kPrompt, i % 2, 68));
  }
  std::vector<RecordingObserver> listeners(requests.size());
  num_admitted_ = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
  }
  Step(*engine);
  EXPECT_EQ(num_admitted_, kNumRequests);
  EXPECT_EQ(segments.num_free_pages(), 1);
  while (!std::ranges::all_of(listeners, &RecordingObserver::finished)) {
    Step(*engine);
  }
  EXPECT_GT(num_admitted_, kNumRequests);
  for (const size_t which : {0, 1}) {
    const auto alone = Alone(requests[which]);
    for (size_t i = which; i < listeners.size(); i += 2) {
      EXPECT_EQ(listeners[i].bits, alone) << i;
    }
  }
}

// Of several segments: a choice that each makes anew has none of its prefix's,
// one that ends with the prefix has all.
TEST_F(EngineSummaryCapacityTest, ForksOfALongPrefixFixWhatTheyRead) {
  const std::vector<std::string> selectors = {
      "snapkv:budget=64,window=16,kernel=3",
      "shadowkv:budget=64,block=8,outliers=32,recent=8"};
  constexpr int kPrefix = 66 * kPageTokens;
  const std::unique_ptr<Engine> engine =
      MakeEngine({.max_num_seqs = 4, .selectors = selectors});
  for (const int selector : {0, 1}) {
    RecordingObserver holder;
    Prefix prefix;
    prefix.tokens = Ask(kPrefix, 0, 1).prompt;
    prefix.max_length = kPrefix + 60;
    prefix.selector = selector;
    const SequenceId id = engine->AddPrefix(prefix, &holder).value();
    std::vector<Request> requests;
    for (const int num_question : {0, 0, 20}) {
      Request& request = requests.emplace_back();
      request.prompt = prefix.tokens;
      for (int i = 0; i < 20; ++i) {
        request.prompt.push_back(
            TinyToken(golden_, 3 * static_cast<int>(requests.size()), 5 * i));
      }
      request.num_question_tokens = num_question;
      request.max_tokens = 6;
      request.sampling.temperature = 0;
      request.selector = selector;
      request.prefix = id;
    }
    std::vector<RecordingObserver> listeners(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_TRUE(engine->Add(requests[i], &listeners[i]).ok());
    }
    engine->Release(id);
    while (!holder.finished) Step(*engine);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(listeners[i].bits, Alone(requests[i], selectors))
          << selectors[static_cast<size_t>(selector)] << " " << i;
    }
    const KvCache& words = *engine->selectors().fixed_words(selector);
    EXPECT_EQ(words.num_free_pages(), words.num_pages());
  }
}

}  // namespace
}  // namespace winnow
