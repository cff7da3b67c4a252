// Steps launched ahead change nothing that a request sees: random workloads,
// with them and without, on devices that run behind the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>

#include "backend/conformance/backend_under_test.h"
#include "base/faulty_folder.h"
#include "cache/disk/disk_store.h"
#include "engine/ahead_counter.h"
#include "engine/testing/engine_invariants.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

const std::vector<std::string> kAheadSelectors = {
    "mean:budget=16,block=8,recent=8",
    "quest:budget=32,block=16,dense_layers=0",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=60",
    "snapkv:budget=20,window=6,kernel=3",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8",
    "window:sink=8,recent=24"};

// WINNOW_AHEAD_WORKLOADS=1000 runs as many a device; 100 by default.
int NumWorkloads() {
  const char* text = std::getenv("WINNOW_AHEAD_WORKLOADS");
  return text == nullptr ? 100 : std::atoi(text);
}

// A rule that every token changes: of the ids about one in three may come.
class AnyThird : public TokenConstraint {
 public:
  AnyThird(uint32_t seed, int length) : state_(seed), left_(length) {}
  Status Mask(std::span<uint32_t> words) override {
    std::ranges::fill(words, 0u);
    for (size_t id = 0; id < words.size() * 32; ++id) {
      if (Allows(id)) words[id / 32] |= uint32_t{1} << (id % 32);
    }
    return Ok{};
  }
  void Accept(int32_t id) override {
    CHECK(Allows(static_cast<size_t>(id)), "token={}", id);
    state_ = state_ * 1664525u + static_cast<uint32_t>(id) + 1013904223u;
    --left_;
  }
  bool complete() const override { return left_ == 0; }

 private:
  bool Allows(size_t id) const {
    return (static_cast<uint32_t>(id) * 7 + state_ / 8) % 3 == 0;
  }
  uint32_t state_;
  int left_;
};

using Bits = std::vector<std::pair<int32_t, float>>;

class AheadListener : public RequestObserver {
 public:
  void OnPrefill(int done, int) override { num_read = done; }
  bool OnToken(const GeneratedToken& token) override {
    EXPECT_FALSE(finished);
    ++num_tokens;
    Add(token);
    if (token.prompt != nullptr) {
      for (const GeneratedToken& of_prompt : *token.prompt) Add(of_prompt);
    }
    return num_tokens != stop_after;
  }
  void OnFinish(const Completion& given) override {
    EXPECT_FALSE(finished);
    finished = true;
    completion = given;
  }

  Bits bits;
  Completion completion;
  int num_read = 0;
  int num_tokens = 0;
  int stop_after = -1;
  bool finished = false;

 private:
  void Add(const GeneratedToken& token) {
    bits.emplace_back(token.token_id, token.logprob);
    for (const TokenLogprob& other : token.top) {
      bits.emplace_back(other.token_id, other.logprob);
    }
  }
};

// What one wants of the engine.
struct Client {
  Request request;
  bool on_prefix = false;
  int arrives = 0;        // after so many steps
  int stop_after = -1;    // tokens, as a stop string does
  int cancel_after = -1;  // tokens, by Cancel
  // Of an AnyThird, made anew for each run; 0: none.
  int rule_length = 0;
};

struct Workload {
  EngineOptions options;
  std::optional<Prefix> prefix;
  std::vector<Client> clients;  // by arrival
  bool forces = false;          // preemptions and demotions at any time
  bool has_disk = false;
};

class EngineAheadTest : public testing::TestWithParam<BackendUnderTest> {
 protected:
  static constexpr int kMaxLength = 160;

  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    WriteTinyModel(golden_, folder_.path(), {.dtype = Dtype::kFloat32});
    model_ = std::make_unique<Model>(Model::Load(folder_.path(), {}).value());
    backend_ = std::make_unique<AheadCounter>(GetParam().make(1));
    ASSERT_TRUE(backend_->attributes().runs_behind);
    ASSERT_TRUE(model_->Upload(*backend_, {}).ok());
  }

  // Of such a device a few small workloads are enough.
  static bool is_slow() { return GetParam().seed_step > 1; }

  int Below(int end) {
    return static_cast<int>(random_() % static_cast<uint64_t>(end));
  }
  bool OneIn(int num) { return Below(num) == 0; }
  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }

  std::vector<int32_t> Text(int num_tokens) {
    const int family = Below(2), own = 5 + Below(9);
    std::vector<int32_t> tokens;
    for (int i = 0; i < num_tokens; ++i) {
      tokens.push_back(TinyToken(golden_, i < 40 ? family : own, i));
    }
    return tokens;
  }

  SamplingParams AnySampling() {
    SamplingParams sampling;
    sampling.temperature = OneIn(2) ? 0.0f : 1.5f;
    sampling.repetition_penalty = OneIn(4) ? 1.3f : 1.0f;
    sampling.frequency_penalty = OneIn(6) ? 0.7f : 0.0f;
    sampling.seed = random_();
    sampling.logprobs = Below(4);
    if (OneIn(5)) sampling.logit_bias.push_back({Below(200), 4.0f});
    return sampling;
  }

  Client AnyClient(const std::optional<Prefix>& prefix) {
    Client client;
    Request& request = client.request;
    client.on_prefix = prefix && OneIn(2);
    if (client.on_prefix) {
      request.prompt = prefix->tokens;
      request.selector = prefix->selector;
    } else {
      request.selector =
          Below(static_cast<int>(kAheadSelectors.size()) + 3) - 3;
      request.selector = std::max(request.selector, -1);
    }
    const std::vector<int32_t> more =
        Text(OneIn(3) ? 40 + Below(50) : 1 + Below(30));
    request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    if (prefix)
      request.prompt.resize(std::min<size_t>(90, request.prompt.size()));
    request.max_tokens = 1 + Below(OneIn(2) || is_slow() ? 8 : 40);
    request.sampling = AnySampling();
    request.cache_prefix = !OneIn(4);
    request.priority = Below(3);
    const int vocab_size = model_->config().vocab_size;
    if (OneIn(3)) {
      for (int id = 0; id < vocab_size; ++id) {
        if (OneIn(12)) request.end_token_ids.push_back(id);
      }
      request.min_tokens = OneIn(2) ? Below(request.max_tokens + 1) : 0;
    }
    if (OneIn(6)) {
      for (int i = Below(request.max_tokens + 1); i > 0; --i) {
        request.forced_tokens.push_back(Below(vocab_size));
      }
    } else if (OneIn(4)) {
      client.rule_length = 1 + Below(20);
    }
    if (OneIn(6) && !client.on_prefix) request.prompt_logprobs = Below(3);
    if (OneIn(5)) client.stop_after = 1 + Below(request.max_tokens);
    if (OneIn(5)) client.cancel_after = 1 + Below(request.max_tokens);
    return client;
  }

  Workload AnyWorkload() {
    Workload workload;
    if (OneIn(4)) {
      workload.prefix.emplace();
      workload.prefix->tokens = Text(10 + Below(40));
      workload.prefix->max_length = 140;
      workload.prefix->selector = Below(3) - 1;
    }
    int64_t most_pages = workload.prefix ? 10 : 4;
    const int mean_gap = Below(6);
    int arrives = 0;
    for (int i = 2 + Below(is_slow() ? 3 : 8); i > 0; --i) {
      workload.clients.push_back(AnyClient(workload.prefix));
      workload.clients.back().arrives = arrives;
      arrives += Below(2 * mean_gap + 1);
      const Request& request = workload.clients.back().request;
      most_pages +=
          OneIn(3) ? PagesFor(std::ssize(request.prompt) + request.max_tokens)
                   : 0;
    }
    constexpr std::array<int, 4> kRows = {32, 40, 70, 512};
    workload.options = {
        .max_num_seqs = 1 + Below(6),
        .max_num_batched_tokens = kRows[static_cast<size_t>(Below(4))],
        .device_kv_bytes = (most_pages + Below(8)) * PageBytes(),
        .host_kv_bytes = (OneIn(2) ? 4 + Below(20) : 0) * PageBytes(),
        .prefix_caching = OneIn(2),
        .layers_per_step = OneIn(12) ? 1 : 0,
        .selectors = kAheadSelectors,
        .max_scored_rows = 16};
    if (workload.options.host_kv_bytes > 0) {
      workload.forces = !OneIn(3);
      if (OneIn(3)) workload.options.cache_budget = CacheBudget{.tokens = 32};
    }
    workload.has_disk = OneIn(4);
    return workload;
  }

  // Null where there is none. It ends what it was asked for by the next step.
  std::unique_ptr<DiskStore> OpenDisk(FaultyDisk* disk) const {
    if (disk == nullptr) return nullptr;
    auto store = DiskStore::Open(disk->Open(),
                                 {.header = {.made_with = {{"model", "tiny"}},
                                             .piece_bytes = PageBytes()},
                                  .max_bytes = 64 * PageBytes(),
                                  .has_own_thread = false});
    CHECK(store.ok(), "{}", store.error().message);
    return std::move(store).value();
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options, bool looks_ahead,
                                     FaultyDisk* disk) {
    options.max_model_len = kMaxLength;
    options.batch_invariant = true;
    options.looks_ahead = looks_ahead;
    auto engine = Engine::Create(*backend_, *model_, options, OpenDisk(disk));
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  static void ExpectSound(const Engine& engine) {
    ASSERT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }

  // One engine's life with a workload's clients.
  struct Run {
    std::vector<AheadListener> heard;
    std::vector<std::optional<SequenceId>> ids = {};
    AheadListener prefix = {};
    std::optional<SequenceId> prefix_id = {};
    std::vector<bool> cancelled = {};
  };

  // Those who have heard enough.
  static void Cancel(Engine& engine, const Workload& workload, Run& run) {
    for (size_t i = 0; i < run.heard.size(); ++i) {
      if (run.heard[i].num_tokens != workload.clients[i].cancel_after) continue;
      if (!run.heard[i].finished) engine.Cancel(*run.ids[i]);
    }
  }

  void Arrive(Engine& engine, const Workload& workload, int step, Run& run) {
    for (size_t i = 0; i < workload.clients.size(); ++i) {
      const Client& client = workload.clients[i];
      if (run.ids[i] || client.arrives > step) continue;
      Request request = client.request;
      if (client.rule_length > 0) {
        request.constraint = std::make_shared<AnyThird>(
            static_cast<uint32_t>(i), client.rule_length);
      }
      if (client.on_prefix) request.prefix = run.prefix_id;
      run.heard[i].stop_after = client.stop_after;
      const Result<SequenceId> id = engine.Add(request, &run.heard[i]);
      run.ids[i] = id.ok() ? *id : SequenceId(~uint64_t{0});
      if (id.ok()) continue;
      run.heard[i].finished = true;  // Refused, in every run.
      run.heard[i].completion.error = id.error();
    }
  }

  // Now and then somebody's pages go, or come.
  void Force(Engine& engine, const Workload& workload, std::mt19937& random,
             Run& run) {
    if (!workload.forces || random() % 4 != 0) return;
    const auto i = random() % run.ids.size();
    if (!run.ids[i]) return;
    switch (random() % 4) {
      case 0:
        engine.Preempt(*run.ids[i]);
        break;
      case 1:
        engine.Demote(*run.ids[i]);
        break;
      case 2:
        engine.Promote(*run.ids[i], 2);
        break;
      default:
        engine.ReclaimIdle(2);
    }
    Cancel(engine, workload, run);
  }

  std::vector<AheadListener> Listen(const Workload& workload,
                                    bool looks_ahead) {
    FaultyDisk disk{1};
    const auto engine = MakeEngine(workload.options, looks_ahead,
                                   workload.has_disk ? &disk : nullptr);
    Run run = {
        .heard = std::vector<AheadListener>(workload.clients.size()),
        .ids = std::vector<std::optional<SequenceId>>(workload.clients.size())};
    std::mt19937 random(workload.clients.size());
    if (workload.prefix) {
      run.prefix_id = engine->AddPrefix(*workload.prefix, &run.prefix).value();
    }
    bool released = !workload.prefix;
    for (int step = 0; step < 5000; ++step) {
      Arrive(*engine, workload, step, run);
      const bool all_came = std::ranges::all_of(
          run.ids, [](const auto& id) { return id.has_value(); });
      if (all_came && !released) engine->Release(*run.prefix_id);
      released = released || all_came;
      const Result<bool> more = engine->Step();
      CHECK(more.ok(), "{}", more.error().message);
      Cancel(*engine, workload, run);
      ExpectSound(*engine);
      Force(*engine, workload, random, run);
      ExpectSound(*engine);
      if (all_came && !*more) break;
    }
    EXPECT_EQ(engine->kv().num_sequences(), 0);
    EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
    return std::move(run.heard);
  }

  static void ExpectSame(const AheadListener& plain, const AheadListener& ahead,
                         bool all_is_whole) {
    ASSERT_TRUE(plain.finished);
    ASSERT_TRUE(ahead.finished);
    EXPECT_EQ(plain.bits, ahead.bits);
    const Completion& a = plain.completion;
    const Completion& b = ahead.completion;
    EXPECT_EQ(a.reason, b.reason);
    ASSERT_EQ(a.error.has_value(), b.error.has_value());
    if (a.error) {
      EXPECT_EQ(a.error->message, b.error->message);
    }
    EXPECT_EQ(a.num_generated_tokens, b.num_generated_tokens);
    EXPECT_EQ(plain.num_read, ahead.num_read);
    EXPECT_EQ(a.kv.num_decode_rows, b.kv.num_decode_rows);
    EXPECT_EQ(a.kv.num_tokens_read, b.kv.num_tokens_read);
    EXPECT_EQ(a.kv.tokens_read_share, b.kv.tokens_read_share);
    if (all_is_whole) {
      EXPECT_EQ(a.kv.device_bytes, b.kv.device_bytes);
    }
  }

  TemporaryFolder folder_{"engine_ahead"};
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<AheadCounter> backend_;
  std::mt19937_64 random_{1};
};

TEST_P(EngineAheadTest, NobodyHearsAnythingElse) {
  std::array<int, 4> ends = {};
  int num_preempted = 0, num_ahead = 0, num_ahead_of_disk = 0;
  const int slowness = GetParam().seed_step * GetParam().seed_step;
  const int num_workloads = NumWorkloads() / (is_slow() ? 2 * slowness : 1);
  for (int i = 0; i < num_workloads; ++i) {
    SCOPED_TRACE(i);
    random_.seed(static_cast<uint64_t>(i));
    const Workload workload = AnyWorkload();
    backend_->num_ahead = 0;
    const std::vector<AheadListener> plain = Listen(workload, false);
    // Where a step is several, what is counted are these.
    const bool in_one = workload.options.layers_per_step == 0;
    ASSERT_TRUE(backend_->num_ahead == 0 || !in_one);
    backend_->num_ahead = 0;
    const std::vector<AheadListener> ahead = Listen(workload, true);
    if (in_one) num_ahead += backend_->num_ahead;
    if (in_one && workload.has_disk) num_ahead_of_disk += backend_->num_ahead;
    for (size_t client = 0; client < plain.size(); ++client) {
      SCOPED_TRACE(client);
      ExpectSame(plain[client], ahead[client],
                 workload.options.host_kv_bytes == 0);
      ++ends[static_cast<size_t>(ahead[client].completion.reason)];
      num_preempted += ahead[client].completion.num_preemptions > 0 ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(num_ahead, (is_slow() ? 2 : 10) * num_workloads);
  if (num_workloads < 60) return;  // Too few to tell.
  EXPECT_GT(num_ahead_of_disk, num_workloads);
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled}) {
    EXPECT_GT(ends[static_cast<size_t>(reason)], num_workloads / 3);
  }
  EXPECT_GT(num_preempted, num_workloads / 12);
}

INSTANTIATE_TEST_SUITE_P(Devices, EngineAheadTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
