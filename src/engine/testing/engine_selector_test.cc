// Requests that choose what they read: whatever runs beside them, and in
// whatever steps, the bits are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Small ones, so that 90 tokens are much to choose from. In the order of
// Request::selector.
const std::vector<std::string> kSmallSelectors = {
    "mean:budget=16,block=8,recent=8",
    "quest:budget=24,block=8,dense_layers=0",
    "window:sink=4,recent=12",
    "oracle:budget=16,block=1,recent=2",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=40",
    "moba:block=32,budget=32",
    "arkvale:budget=32,block=8,sink=8,recent=8,dense_layers=none",
    "tidal:budget=16,select_layers=0",
    "snapkv:budget=20,window=6,kernel=3",
    "shadowkv:budget=16,block=4,outliers=12,recent=4",
    "quest:budget=24,block=8,dense_layers=0,summaries=fp8",
    "seerattention-r:budget=16,block=8",
    "seerattention-r:threshold=0.1,block=8,dense_layers=1",
    "clusterkv:budget=24,segment=32,cluster=4,sink=4,dense_layers=0",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8",
    "dense"};

class EngineSelectorTest : public testing::TestWithParam<Dtype> {
 protected:
  static constexpr int kMaxLength = 90;

  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    WriteTinyModel(golden_, folder_.path(), {.dtype = GetParam()});
    model_ = std::make_unique<Model>(Model::Load(folder_.path(), {}).value());
    WriteTinyGates(model_->config(), folder_.path());
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options = {}) {
    options.device_kv_bytes = 4 << 20;
    options.max_model_len = 96;
    options.batch_invariant = true;
    if (options.selectors.empty()) options.selectors = kSmallSelectors;
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(*backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  // The golden prompt, repeated, from `first` on.
  Request Ask(int first, int num_tokens, int num_question, int selector) const {
    Request request;
    for (int i = 0; i < num_tokens; ++i) {
      request.prompt.push_back(TinyToken(golden_, first, i));
    }
    request.num_question_tokens = num_question;
    request.max_tokens = kMaxLength - num_tokens;
    request.sampling.temperature = 0;
    request.selector = selector;
    return request;
  }

  // Two a selector, so that one's summaries are not the first segment; and two
  // without.
  std::vector<Request> AskAll() const {
    std::vector<Request> requests;
    for (int i = -1; i < static_cast<int>(kSmallSelectors.size()); ++i) {
      for (const int first : {i + 2, i + 9}) {
        requests.push_back(Ask(first, 70 + i, 10 + i, i));
      }
    }
    return requests;
  }

  static void ExpectSegmentsHold(const Engine& engine) {
    EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }

  std::vector<RecordingObserver> Run(Engine& engine,
                                     const std::vector<Request>& requests) {
    std::vector<RecordingObserver> listeners(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result<SequenceId> id = engine.Add(requests[i], &listeners[i]);
      CHECK(id.ok(), "{}", id.error().message);
    }
    RunToEnd(engine);
    return listeners;
  }

  static void RunToEnd(Engine& engine) {
    while (true) {
      const Result<bool> more = engine.Step();
      CHECK(more.ok(), "{}", more.error().message);
      ExpectSegmentsHold(engine);
      if (!*more) break;
    }
  }

  void ExpectAllIsFree(const Engine& engine) {
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
    for (int i = 0; i < engine.selectors().size(); ++i) {
      for (const KvCache* segments :
           {engine.selectors().segments(i), engine.selectors().fixed_queries(i),
            engine.selectors().fixed_words(i)}) {
        if (segments == nullptr) continue;
        EXPECT_EQ(segments->num_free_pages(), segments->num_pages()) << i;
      }
    }
  }

  const TemporaryFolder folder_{"engine_selector"};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 2});
  std::unique_ptr<Model> model_;
  TinyCase golden_;
};

TEST_P(EngineSelectorTest, BitsDoNotDependOnTheCompany) {
  const std::vector<Request> requests = AskAll();
  const std::unique_ptr<Engine> engine = MakeEngine();
  const std::vector<RecordingObserver> together = Run(*engine, requests);
  ExpectAllIsFree(*engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::unique_ptr<Engine> alone = MakeEngine();
    EXPECT_EQ(Run(*alone, {requests[i]})[0].bits, together[i].bits) << i;
  }
}

TEST_P(EngineSelectorTest, BitsDoNotDependOnChunksNorLayerRanges) {
  const std::vector<Request> requests = AskAll();
  const std::unique_ptr<Engine> engine = MakeEngine();
  const std::vector<RecordingObserver> expected = Run(*engine, requests);
  for (const int rows : {32, 100}) {
    for (const int layers : {0, 1}) {
      const std::unique_ptr<Engine> other = MakeEngine(
          {.max_num_batched_tokens = rows, .layers_per_step = layers});
      const std::vector<RecordingObserver> got = Run(*other, requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(got[i].bits, expected[i].bits) << rows << " " << layers;
      }
    }
  }
}

TEST_P(EngineSelectorTest, ShuffledRequestsAnswerAsInTheirOrder) {
  const std::vector<Request> requests = AskAll();
  const std::unique_ptr<Engine> engine = MakeEngine();
  const std::vector<RecordingObserver> expected = Run(*engine, requests);
  std::mt19937 random(1);
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (int round = 0; round < 3; ++round) {
    std::ranges::shuffle(order, random);
    std::vector<Request> shuffled;
    for (const size_t i : order) shuffled.push_back(requests[i]);
    const std::unique_ptr<Engine> other = MakeEngine();
    const std::vector<RecordingObserver> got = Run(*other, shuffled);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(got[i].bits, expected[order[i]].bits) << order[i];
    }
  }
}

// In tokens and as a share, at contexts of every length within a block.
TEST_P(EngineSelectorTest, ABudgetOfTheWholeContextIsDense) {
  const std::vector<std::string> kRest = {
      "window:sink=0,recent=",
      "mean:block=8,budget=",
      "mean:block=32,summaries=fp8,sink=0,recent=0,budget=",
      "quest:block=16,dense_layers=none,budget=",
      "quest:block=32,heads=kv,dense_layers=none,summaries=fp8,budget=",
      "arkvale:block=16,sink=8,recent=8,dense_layers=none,budget=",
      "oracle:block=16,budget=",
      "infllm-v2:kernel=8,stride=4,block=32,sink=0,recent=0,dense_len=0,"
      "budget=",
      "moba:block=32,budget=",
      "tidal:select_layers=0,budget=",
      "snapkv:window=6,kernel=3,budget=",
      "shadowkv:block=4,outliers=12,recent=4,budget=",
      "seerattention-r:block=16,budget=",
      "clusterkv:segment=32,cluster=4,sink=4,dense_layers=none,budget=",
      "retroinfer:estimate=16,segment=32,cluster=4,recent=8,budget="};
  std::vector<std::string> all;
  std::set<std::string> names;
  for (const std::string& rest : kRest) {
    all.push_back(rest + "96");
    if (!rest.starts_with("window")) all.push_back(rest + "100%");
    names.insert(rest.substr(0, rest.find(':')));
  }
  // Each of them, but for the one that has no budget to give.
  EXPECT_EQ(names.size() + 1, AllSelectors().size());
  const std::unique_ptr<Engine> engine = MakeEngine({.selectors = all});
  std::vector<Request> requests;
  for (int i = -1; i < static_cast<int>(all.size()); ++i) {
    requests.push_back(Ask(1, 67, 9, i));
  }
  const std::vector<RecordingObserver> got = Run(*engine, requests);
  for (size_t i = 1; i < got.size(); ++i) {
    EXPECT_EQ(got[i].bits, got[0].bits) << all[i - 1];
    EXPECT_EQ(got[i].completion.kv.tokens_read_share, 1.0) << all[i - 1];
  }
}

// A selector must change something, or these tests show nothing.
TEST_P(EngineSelectorTest, ChoosingLessGivesOtherNumbers) {
  const std::unique_ptr<Engine> engine = MakeEngine();
  std::vector<Request> requests;
  for (int i = -1; i < static_cast<int>(kSmallSelectors.size()); ++i) {
    requests.push_back(Ask(0, 70, 10, i));
  }
  const std::vector<RecordingObserver> got = Run(*engine, requests);
  EXPECT_EQ(got.back().bits, got[0].bits) << "dense, by its name";
  for (size_t i = 1; i + 1 < got.size(); ++i) {
    EXPECT_NE(got[i].bits, got[0].bits) << kSmallSelectors[i - 1];
    EXPECT_LT(got[i].completion.kv.tokens_read_share, 1.0);
    EXPECT_GT(got[i].completion.kv.tokens_read_share, 0.1);
  }
  EXPECT_EQ(got[0].completion.kv.tokens_read_share, 1.0);
}

TEST_P(EngineSelectorTest, CountsWhatIsRead) {
  const std::unique_ptr<Engine> engine = MakeEngine();
  const RecordingObserver window = Run(*engine, {Ask(0, 60, 0, 2)})[0];
  double sum = 0;
  int count = 0;
  // The last token is drawn and not fed back.
  for (int context = 61; context < kMaxLength; ++context, ++count) {
    sum += 16.0 / context;
  }
  EXPECT_NEAR(window.completion.kv.tokens_read_share, sum / count, 1e-6);
}

// Forked from a prefix that has no summaries, or the same selector's.
TEST_P(EngineSelectorTest, ForksAreAsRequestsAlone) {
  for (int selector = 0; selector < static_cast<int>(kSmallSelectors.size());
       ++selector) {
    const Request question = Ask(3, 70, 20, selector);
    const std::vector<RecordingObserver> expected =
        Run(*MakeEngine(), {question});
    for (const bool same : {false, true}) {
      // A new one: what it holds of others could stand for what is missing.
      const std::unique_ptr<Engine> engine = MakeEngine();
      const bool in_prompt =
          BelongsToPrompt(engine->selectors().selector(selector).program);
      // What prompts read is then the prefix's own.
      if (in_prompt && !same) continue;
      Prefix prefix;
      prefix.tokens.assign(question.prompt.begin(),
                           question.prompt.begin() + 45);
      prefix.max_length = kMaxLength;
      prefix.selector = same ? selector : -1;
      RecordingObserver of_prefix;
      const Result<SequenceId> id = engine->AddPrefix(prefix, &of_prefix);
      ASSERT_TRUE(id.ok()) << id.error().message;
      std::vector<RecordingObserver> forks(3);
      for (RecordingObserver& fork : forks) {
        Request request = question;
        request.prefix = *id;
        // Rows between the prefix and the question are prefill rows.
        ASSERT_TRUE(engine->Add(request, &fork).ok());
      }
      engine->Release(*id);
      RunToEnd(*engine);
      for (const RecordingObserver& fork : forks) {
        EXPECT_EQ(fork.bits, expected[0].bits)
            << kSmallSelectors[static_cast<size_t>(selector)] << " " << same;
      }
      ExpectAllIsFree(*engine);
    }
  }
}

TEST_P(EngineSelectorTest, RefusesWhatTheEngineHasNot) {
  const std::unique_ptr<Engine> engine = MakeEngine({.max_num_seqs = 1});
  RecordingObserver listener;
  const auto id = engine->Add(Ask(0, 40, 0, 99), &listener);
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().message,
            "selector must be below 16 (of the engine's), is 99");
}

// A device that lacks what a program asks for: at start, by name.
TEST_P(EngineSelectorTest, RefusesWhatTheDeviceHasNot) {
  HookedBackend backend(MakeCpuBackend({.num_threads = 1}));
  backend.given_attributes = backend.attributes();
  backend.given_attributes->name = "other:0";
  backend.given_attributes->select_features = 0;
  const std::pair<std::string, std::string> kCases[] = {
      {"snapkv", "a choice that is made once"},
      {"shadowkv", "a choice that is made once"},
      {"quest:summaries=fp8,dense_layers=none", "summaries in fp8"},
      {"seerattention-r", "learned gates"},
      {"clusterkv:dense_layers=none", "clusters of tokens"},
      {"retroinfer", "clusters of tokens"}};
  const EngineOptions options = {.max_model_len = 96,
                                 .device_kv_bytes = 4 << 20};
  for (const auto& [spec, feature] : kCases) {
    EngineOptions asked = options;
    asked.selectors = {spec};
    const auto engine = Engine::Create(backend, *model_, asked);
    ASSERT_FALSE(engine.ok()) << spec;
    EXPECT_EQ(engine.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(engine.error().message,
              fmt::format("--select {}: other:0 cannot run {} yet, the CPU can",
                          spec, feature));
  }
  EngineOptions others = options;
  others.selectors = {"mean", "tidal:select_layers=0", "infllm-v2", "dense"};
  EXPECT_TRUE(Engine::Create(backend, *model_, others).ok());
}

TEST_P(EngineSelectorTest, RefusesGatesThatAreNotThere) {
  std::filesystem::remove(folder_.path() / "attn_gate_weights.safetensors");
  EngineOptions options = {.max_model_len = 96, .device_kv_bytes = 4 << 20};
  options.selectors = {"seerattention-r"};
  const auto engine = Engine::Create(*backend_, *model_, options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(engine.error().message,
            fmt::format("--select seerattention-r: {}: must hold gates, in "
                        "attn_gate_weights.safetensors or among the "
                        "checkpoint's tensors, has none",
                        folder_.path().string()));
}

// What gates were trained for is the default, and anything else is refused.
TEST_P(EngineSelectorTest, GatesKeepTheirBlocks) {
  WriteTinyGates(model_->config(), folder_.path(), "8");
  EngineOptions options = {.max_model_len = 96, .device_kv_bytes = 4 << 20};
  options.selectors = {"seerattention-r:budget=16"};
  {
    const auto engine = Engine::Create(*backend_, *model_, options);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    EXPECT_EQ((*engine)->selectors().selector(0).program.block_tokens, 8);
  }
  options.selectors = {"seerattention-r:budget=16,block=16"};
  const auto engine = Engine::Create(*backend_, *model_, options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine.error().message,
            "--select seerattention-r: block must be what the model's gates "
            "were trained with, 8, is 16");
}

// Where a device does not read the host's memory, gates are its own.
TEST_P(EngineSelectorTest, GatesMoveToADevice) {
  HookedBackend backend(MakeCpuBackend({.num_threads = 1}));
  backend.given_attributes = backend.attributes();
  backend.given_attributes->device_is_host = false;
  View moved;
  backend.pre_copy = [&](const View&, const View& to) {
    if (moved.empty()) moved = to;  // What an engine copies first.
  };
  const std::byte* gate = nullptr;
  backend.pre_select = [&](const SelectArgs& args) {
    gate = args.selectors[0].gate.q.data;
  };
  EngineOptions options = {.max_model_len = 96, .device_kv_bytes = 4 << 20};
  options.selectors = {"seerattention-r:budget=16,block=8"};
  {
    const auto engine = Engine::Create(backend, *model_, options);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    RecordingObserver listener;
    ASSERT_TRUE((*engine)->Add(Ask(0, 40, 0, 0), &listener).ok());
    while ((*engine)->Step().value()) {
    }
  }
  ASSERT_NE(gate, nullptr);
  EXPECT_GE(gate, moved.data);
  EXPECT_LT(gate, moved.data + moved.num_elements());
  backend.on_wait = [] {
    return Status(MakeError(ErrorCode::kIo, "other:0: a copy failed"));
  };
  const auto engine = Engine::Create(backend, *model_, options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().message, "other:0: a copy failed");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EngineSelectorTest,
                         testing::Values(Dtype::kFloat32, Dtype::kBFloat16),
                         [](const auto& instance) {
                           return std::string(DtypeName(instance.param));
                         });

}  // namespace
}  // namespace winnow
