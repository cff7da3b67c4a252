// The all-resident oracle: whatever the pools' sizes, whoever gives way or goes
// on with slots and whatever leaves the device in the middle, every request's
// tokens and logits are those of a run in which everything is resident and
// nothing is shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "base/faulty_folder.h"
#include "engine/ahead_counter.h"
#include "engine/engine_invariants.h"
#include "engine/late_backend.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

constexpr int kMaxLength = 192;
// A model of so many layers is what a prompt larger than the pool is read by,
// whose length is this at most.
constexpr int kDeepLayers = 6, kMaxDeepLength = 320;
const std::vector<std::string> kSelectors = {
    "mean:budget=16,block=8,recent=8",
    "infllm-v2:kernel=8,stride=4,block=32,budget=32,sink=0,recent=0,"
    "dense_len=60",
    "moba:block=32,budget=32",
    "tidal:budget=16,select_layers=0",
    "snapkv:budget=20,window=6,kernel=3",
    "shadowkv:budget=16,block=4,outliers=12,recent=4",
    "clusterkv:budget=24,segment=32,cluster=4,sink=4,dense_layers=none",
    "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8",
    "seerattention-r:budget=16,block=8",
    "window:sink=8,recent=24",
    "mean:budget=16,block=16,recent=8,dense_layers=0",
    "oracle:budget=24,block=8,sink=0,recent=8"};

// WINNOW_TIER_WORKLOADS=2000 runs as many; 200 by default.
int NumWorkloads() {
  const char* text = std::getenv("WINNOW_TIER_WORKLOADS");
  return text == nullptr ? 200 : std::atoi(text);
}

using Bits = std::vector<std::pair<int32_t, float>>;

class Listener : public RequestObserver {
 public:
  void OnPrefill(int done, int) override {
    EXPECT_GT(done, num_read);
    num_read = done;
  }
  bool OnToken(const GeneratedToken& token) override {
    bits.emplace_back(token.token_id, token.logprob);
    for (const TokenLogprob& other : token.top) {
      bits.emplace_back(other.token_id, other.logprob);
    }
    return true;
  }
  void OnFinish(const Completion& given) override {
    EXPECT_FALSE(finished);
    finished = true;
    completion = given;
  }

  Bits bits;
  Completion completion;
  int num_read = 0;
  bool finished = false;
  bool refused = false;
};

struct Totals {
  int num_layerwise = 0;              // that were read layer by layer
  int num_layerwise_with_others = 0;  // beside which others were admitted
  int num_layerwise_cached = 0;       // that began with pages of others
  int64_t num_moved_frames = 0;       // between layers
  int num_refused = 0;                // for which there was never room
  int num_brought_back = 0;           // times that pages were promoted
  int num_whole_again = 0;            // of these
  int num_preemptions = 0;
  int num_forced = 0;  // of these
  int num_fetched = 0;
  int num_cached = 0;
  int num_forks = 0;
  int num_cancelled = 0;
  int num_with_slots = 0;
  int64_t num_hints = 0;  // pieces that were fetched
  int num_forks_with_slots = 0;
  int num_missing = 0;    // had slots, which did not have all that was picked
  int num_back = 0;       // had slots, and gave way
  int num_from_disk = 0;  // pages
  int num_from_disk_with_slots = 0;  // requests
};

// What is asked, and with how much room.
struct Workload {
  EngineOptions options;
  std::vector<Request> requests;
  std::optional<Prefix> prefix;  // of the requests in on_prefix
  std::vector<bool> on_prefix;   // [requests]
  int mean_gap = 1;              // steps between two arrivals
  bool forces = false;           // requests to give way at any time
  bool demotes = false;          // and to go on with slots
  bool expects_little = false;   // as the first ones ended soon
  bool is_deep = false;          // the deep model's: some exceed the pool
  // On a disk that the engine before has left; 0: there is none.
  int64_t num_disk_slots = 0;
  FolderFaults disk_faults = {};
};

class EngineTiersOracleTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    WriteTinyModel(golden_, folder_.path(), {.dtype = Dtype::kFloat32});
    models_[0] =
        std::make_unique<Model>(Model::Load(folder_.path(), {}).value());
    WriteTinyGates(models_[0]->config(), folder_.path());
    WriteTinyModel(WithLayers(golden_, kDeepLayers), deep_folder_.path(),
                   {.dtype = Dtype::kFloat32});
    models_[1] =
        std::make_unique<Model>(Model::Load(deep_folder_.path(), {}).value());
    WriteTinyGates(models_[1]->config(), deep_folder_.path());
  }

  const Model& ModelOf(const Workload& workload) const {
    return *models_[workload.is_deep ? 1 : 0];
  }
  int64_t PageBytes(const Workload& workload) const {
    const Model& model = ModelOf(workload);
    return kPageTokens * KvBytesPerToken(model.config(), model.dtype());
  }

  int Below(int end) {
    return static_cast<int>(random_() % static_cast<uint64_t>(end));
  }

  SequenceId AnyOf(const std::vector<SequenceId>& ids) {
    return ids[static_cast<size_t>(Below(static_cast<int>(ids.size())))];
  }

  // Texts of a family begin alike.
  std::vector<int32_t> Text(int family, int num_shared, int num_tokens) {
    std::vector<int32_t> tokens;
    const int own = 3 * family + 5 + Below(3);
    for (int i = 0; i < num_tokens; ++i) {
      const int first = i < num_shared ? 3 * family : own;
      tokens.push_back(TinyToken(golden_, first, i));
    }
    return tokens;
  }

  Request AnyRequest(const std::optional<Prefix>& prefix, bool all_long) {
    Request request;
    if (prefix) {
      request.prompt = prefix->tokens;
      const std::vector<int32_t> more = Text(Below(2), 0, 1 + Below(20));
      request.prompt.insert(request.prompt.end(), more.begin(), more.end());
      request.num_question_tokens = Below(static_cast<int>(more.size()) + 1);
      request.selector = prefix->selector;
      request.max_tokens =
          prefix->max_length - static_cast<int>(request.prompt.size());
      if (Below(2) == 0) request.max_tokens = 1 + Below(request.max_tokens);
    } else {
      const bool is_long =
          all_long || Below(3) == 0;  // and grows into others' room
      const int num_tokens = is_long ? 3 + Below(60) : 40 + Below(85);
      request.prompt = Text(Below(2), 64, num_tokens);
      request.num_question_tokens = Below(2) * Below(std::min(num_tokens, 20));
      const int num_selectors = static_cast<int>(kSelectors.size());
      request.selector = std::max(-1, Below(num_selectors + 3) - 3);
      request.max_tokens = is_long ? 70 + Below(60) : 1 + Below(30);
      request.cache_prefix = Below(5) > 0;
    }
    request.sampling.temperature = Below(2) == 0 ? 0.0f : 1.5f;
    request.sampling.repetition_penalty = Below(4) == 0 ? 1.3f : 1.0f;
    request.sampling.seed = random_();
    request.sampling.logprobs = 3;
    return request;
  }

  // To three pages at most.
  static void Shorten(Request& request) {
    request.prompt.resize(std::min<size_t>(request.prompt.size(), 60));
    request.num_question_tokens =
        std::min(request.num_question_tokens,
                 static_cast<int>(request.prompt.size()) - 1);
    request.max_tokens = std::min(request.max_tokens, 30);
  }

  // As long as the deep model's may be; what it reads may lie in slots.
  Request AnyLongRequest() {
    Request request = AnyRequest(std::nullopt, /*all_long=*/false);
    request.prompt = Text(Below(4) / 3, 160, 190 + Below(kMaxDeepLength - 230));
    request.cache_prefix = true;
    request.num_question_tokens = Below(2) * Below(40);
    request.selector = std::array{
        0, 1, 2, 4, 5, 6, 7, 8, 9, 10}[static_cast<size_t>(Below(10))];
    request.max_tokens = 1 + Below(40);
    return request;
  }

  // Which fails in a third of all cases.
  void PutOnDisk(Workload& workload) {
    workload.num_disk_slots = 4 << Below(5);
    constexpr std::array<FolderFaults, 3> kFaults = {
        {{.read_error = 0.3}, {.write_error = 0.3}, {.short_transfer = 0.5}}};
    if (Below(3) == 0) {
      workload.disk_faults = kFaults[static_cast<size_t>(Below(3))];
    }
  }

  // Whether both pools have room for them is left to them. Some ask again.
  void AddLongRequests(Workload& workload) {
    std::vector<int32_t> prompt;
    for (int i = 1 + Below(3); i > 0; --i) {
      const int at = Below(static_cast<int>(workload.requests.size()) + 1);
      Request request = AnyLongRequest();
      if (!prompt.empty() && Below(3) > 0) request.prompt = prompt;
      prompt = request.prompt;
      workload.requests.insert(workload.requests.begin() + at,
                               std::move(request));
      workload.on_prefix.insert(workload.on_prefix.begin() + at, false);
    }
  }

  // From less than a page a layer to all that is picked; forks have little to
  // give up.
  std::optional<CacheBudget> AnyBudget(bool has_prefix) {
    if (has_prefix || Below(2) == 0) {
      return CacheBudget{.tokens = 8 << Below(has_prefix ? 3 : 5)};
    }
    if (Below(3) == 0) return CacheBudget{.times = 1.5};
    return std::nullopt;
  }

  // Nothing of the host is worth a copy, or everything.
  RestoreRates AnyRates() {
    if (Below(6) > 0) return {};
    return {.link_bytes_per_second = 1,
            .computing = {.row_ms = 1e-6, .most = {.rows = 1e9, .reads = 1e18}},
            .max_step_rows = 1 << 20};
  }

  Workload AnyWorkload(bool is_deep) {
    Workload workload;
    workload.is_deep = is_deep;
    const bool has_prefix = Below(4) == 0 && !is_deep;
    if (has_prefix) {
      workload.prefix.emplace();
      workload.prefix->tokens = Text(7, 0, 20 + Below(60));
      workload.prefix->max_length =
          static_cast<int>(workload.prefix->tokens.size()) + 60 + Below(50);
      // None that acts in prompts, by their length: it would read a prefix
      // otherwise than a request that computes it by itself.
      workload.prefix->selector =
          std::array{-1, 0, 3, 4, 6, 8}[static_cast<size_t>(Below(6))];
    }
    workload.mean_gap = 1 + Below(6);
    workload.forces = Below(2) == 0;
    workload.demotes = has_prefix || Below(2) == 0;
    workload.expects_little = Below(2) == 0;
    // Nobody gives way but for want of pages.
    const bool all_long = workload.expects_little && !workload.forces;
    if (all_long) workload.mean_gap = 1;
    int64_t most_pages = 1;
    for (int i = 3 + Below(8); i > 0; --i) {
      const bool is_fork = has_prefix && Below(2) == 0;
      workload.on_prefix.push_back(is_fork);
      workload.requests.push_back(
          AnyRequest(is_fork ? workload.prefix : std::nullopt, all_long));
      if (is_deep && !is_fork) Shorten(workload.requests.back());
      const Request& request = workload.requests.back();
      if (is_fork) continue;
      most_pages = std::max(most_pages, PagesFor(std::ssize(request.prompt) +
                                                 request.max_tokens));
    }
    if (has_prefix) {
      most_pages += PagesFor(std::ssize(workload.prefix->tokens)) +
                    PagesFor(workload.prefix->max_length);
    }
    if (is_deep) {
      AddLongRequests(workload);
      most_pages = std::max<int64_t>(most_pages, 5) + Below(3);
    }
    constexpr std::array<int, 4> kHostPages = {1, 4, 12, 40};
    constexpr std::array<int, 4> kRows = {32, 40, 70, 2048};
    workload.options = {
        .max_num_seqs = 2 + Below(4),
        .max_num_batched_tokens = kRows[static_cast<size_t>(Below(4))],
        .device_kv_bytes = (most_pages + Below(4)) * PageBytes(workload),
        .host_kv_bytes =
            kHostPages[static_cast<size_t>(is_deep ? 2 + Below(2) : Below(4))] *
            PageBytes(workload),
        .prefix_caching = Below(4) > 0,
        .layers_per_step = Below(3) == 0 ? 1 : 0};
    workload.options.cache_budget = AnyBudget(has_prefix);
    workload.options.max_table_sharers =
        1 + static_cast<int>(workload.requests.size() % 3);
    workload.options.restore_rates = AnyRates();
    if (Below(3) == 0) PutOnDisk(workload);
    return workload;
  }

  std::unique_ptr<DiskStore> OpenDisk(FaultyDisk& disk,
                                      const Workload& workload) {
    const int64_t page_bytes = PageBytes(workload);
    const DiskSlotLayout layout(page_bytes);
    auto store = DiskStore::Open(
        disk.Open(), {.header = {.key = "tiny", .piece_bytes = page_bytes},
                      .max_bytes = workload.num_disk_slots * layout.slot_bytes,
                      .has_own_thread = false});
    CHECK(store.ok(), "{}", store.error().message);
    return std::move(store).value();
  }

  std::unique_ptr<Engine> MakeEngine(Backend& backend, const Workload& workload,
                                     EngineOptions options,
                                     std::unique_ptr<DiskStore> disk = {}) {
    options.max_model_len = workload.is_deep ? kMaxDeepLength : kMaxLength;
    options.batch_invariant = true;
    options.selectors = kSelectors;
    Result<std::unique_ptr<Engine>> engine =
        Engine::Create(backend, ModelOf(workload), options, std::move(disk));
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  static void ExpectSound(const Engine& engine) {
    ASSERT_EQ(BrokenInvariants(engine), std::vector<std::string>());
    if (engine.slots() == nullptr) return;
    const SlotSnapshot slots = engine.slots()->ledger().Snapshot();
    for (const SlotOwnerSnapshot& owner : slots.owners) {
      ASSERT_GE(engine.slots()->NumSaved(owner.sequence), 0);
    }
  }

  // Everything at once, each request with a prompt of its own.
  std::vector<Listener> RunResident(const Workload& workload) {
    const std::unique_ptr<Engine> engine =
        MakeEngine(*backend_, workload,
                   {.max_num_seqs = 16,
                    .device_kv_bytes = 130 * PageBytes(workload),
                    .prefix_caching = false});
    std::vector<Listener> listeners(workload.requests.size());
    for (size_t i = 0; i < listeners.size(); ++i) {
      const auto id = engine->Add(workload.requests[i], &listeners[i]);
      CHECK(id.ok(), "{}", id.error().message);
    }
    while (*engine->Step()) {
    }
    return listeners;
  }

  static void RunBriefOne(Engine& engine) {
    Request request;
    request.prompt = {1};
    request.max_tokens = 1;
    Listener listener;
    CHECK(engine.Add(std::move(request), &listener).ok());
    while (*engine.Step()) {
    }
  }

  // In little room, with interruptions; on `disk`, if there is one; on a late
  // device, if there is one.
  std::vector<Listener> RunPressed(const Workload& workload,
                                   std::unique_ptr<DiskStore> disk = {}) {
    const std::unique_ptr<Engine> engine =
        MakeEngine(late_ ? *late_ : *backend_, workload, workload.options,
                   std::move(disk));
    if (workload.expects_little) RunBriefOne(*engine);
    std::vector<Listener> listeners(workload.requests.size());
    std::vector<SequenceId> ids;
    Listener holder;
    std::set<SequenceId> layerwise;
    std::optional<SequenceId> prefix;
    if (workload.prefix)
      prefix = engine->AddPrefix(*workload.prefix, &holder).value();
    while (true) {
      if (ids.size() < listeners.size() && Below(workload.mean_gap) == 0) {
        Request request = workload.requests[ids.size()];
        if (workload.on_prefix[ids.size()]) request.prefix = prefix;
        const auto id = engine->Add(std::move(request), &listeners[ids.size()]);
        CHECK(id.ok() || workload.is_deep, "{}", id.error().message);
        // Nobody's number, where there is never room for it.
        ids.push_back(id.ok() ? *id : SequenceId(uint64_t{1} << 40));
        listeners[ids.size() - 1].refused = !id.ok();
        totals_.num_refused += !id.ok();
        if (ids.size() == listeners.size() && prefix) engine->Release(*prefix);
      }
      for (int i = workload.forces && Below(8) == 0 ? 1 + Below(2) : 0;
           i > 0 && !ids.empty(); --i) {
        const SequenceId id = AnyOf(ids);
        totals_.num_forced += engine->kv().is_open(id);
        engine->Preempt(id);
        // Who is layerwise stays.
        totals_.num_forced -= engine->kv().is_open(id);
      }
      if (workload.demotes && Below(4) == 0 && !ids.empty()) {
        engine->Demote(AnyOf(ids));
      }
      if (workload.demotes && Below(4) == 0 && !ids.empty()) {
        PromoteAny(*engine, ids);
      }
      if (workload.demotes) MoveAnyFrames(*engine, ids);
      if (Below(6) == 0) engine->EvictIdle(Below(6));
      if (Below(90) == 0 && !ids.empty()) {
        engine->Cancel(AnyOf(ids));
      }
      ExpectSound(*engine);
      const Result<bool> more = engine->Step();
      CHECK(more.ok(), "{}", more.error().message);
      ExpectSound(*engine);
      CountLayerwise(*engine, ids, layerwise);
      if (HasFailure()) break;
      if (!*more && ids.size() == listeners.size()) break;
    }
    ExpectNothingIsHeld(*engine);
    if (engine->slots() != nullptr) {
      totals_.num_moved_frames += engine->slots()->num_moved_frames();
    }
    if (engine->disk() != nullptr) {
      totals_.num_from_disk +=
          static_cast<int>(engine->disk()->store().counts().num_read);
    }
    return listeners;
  }

  void CountLayerwise(const Engine& engine, const std::vector<SequenceId>& ids,
                      std::set<SequenceId>& layerwise) {
    for (const SequenceId id : ids) {
      if (!engine.kv().is_open(id) || !engine.kv().has_loan(id)) continue;
      totals_.num_layerwise += layerwise.insert(id).second;
      totals_.num_layerwise_with_others += engine.kv().num_sequences() > 1;
    }
  }

  // All or part of what one has given up comes back, and may leave at once.
  void PromoteAny(Engine& engine, const std::vector<SequenceId>& ids) {
    for (const SequenceId id : ids) {
      if (!engine.kv().is_open(id) || Below(2) == 0) continue;
      const int64_t num_far = engine.kv().NumFar(id);
      if (num_far == 0) continue;
      engine.Promote(id, 1 + Below(static_cast<int>(num_far)));
      const int64_t num_left = engine.kv().NumFar(id);
      totals_.num_brought_back += num_left < num_far;
      totals_.num_whole_again += num_left == 0;
      if (Below(4) == 0) engine.Demote(id);
    }
  }

  void MoveAnyFrames(Engine& engine, const std::vector<SequenceId>& ids) {
    const int num_layers = engine.slots()->ledger().options().num_layers;
    for (const SequenceId id : ids) {
      engine.MoveFrame(id, Below(num_layers), Below(num_layers));
    }
  }

  static void ExpectNothingIsHeld(const Engine& engine) {
    EXPECT_EQ(engine.kv().num_sequences(), 0);
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
    // What is idle and what lies on the host alone is all that there is.
    const KvSnapshot kv = engine.kv().Snapshot();
    EXPECT_EQ(std::ssize(kv.indexed), kv.device.num_in_use);
    EXPECT_EQ(std::ssize(kv.indexed_on_host), kv.host.num_in_use);
    if (engine.slots() == nullptr) return;
    const SlotSnapshot slots = engine.slots()->ledger().Snapshot();
    EXPECT_EQ(std::ssize(slots.split), 0);
    EXPECT_EQ(slots.num_free_segments, slots.num_segments);
    EXPECT_EQ(slots.num_free_chunks, slots.num_chunks);
  }

  void CountSlots(const Completion& completion, bool is_fork) {
    const KvCounters& kv = completion.kv;
    EXPECT_EQ(kv.picks, kv.hits + kv.misses);
    EXPECT_LE(kv.hints_used, kv.hints);
    totals_.num_hints += kv.hints;
    if (kv.picks == 0) return;
    ++totals_.num_with_slots;
    totals_.num_forks_with_slots += is_fork;
    totals_.num_missing += kv.misses > 0;
    totals_.num_back += completion.num_preemptions > 0;
  }

  // None, those that the engine asks for by itself, and such as are fetched.
  static HintOptions AnyHints(uint64_t seed) {
    std::mt19937_64 random(~seed);
    if (random() % 3 == 0) return {};
    constexpr std::array<int, 5> kAges = {0, 1, 4, kEmptyAge, kNoHintFetch};
    return {.budget_times = 1 + static_cast<double>(random() % 5),
            .least_age = kAges[random() % kAges.size()]};
  }

  void RunSeed(uint64_t seed, bool is_deep) {
    random_.seed(seed);
    Workload workload = AnyWorkload(is_deep);
    workload.options.hints = AnyHints(seed);
    constexpr std::array<double, 4> kShares = {0, 1.0 / 16, 0.5, 1};
    workload.options.write_behind_share = kShares[seed / 2 % kShares.size()];
    const std::vector<Listener> expected = RunResident(workload);
    if (workload.num_disk_slots == 0) {
      return ExpectAnswers(seed, workload, RunPressed(workload), expected);
    }
    FaultyDisk disk(static_cast<uint32_t>(seed));
    for (int life = 0; life < 2 && !HasFailure(); ++life) {
      disk.faults() = {};
      std::unique_ptr<DiskStore> store = OpenDisk(disk, workload);
      disk.faults() = workload.disk_faults;
      ExpectAnswers(seed, workload, RunPressed(workload, std::move(store)),
                    expected);
    }
  }

  void ExpectAnswers(uint64_t seed, const Workload& workload,
                     const std::vector<Listener>& got,
                     const std::vector<Listener>& expected) {
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(fmt::format("seed {} request {} selector {} on prefix {}",
                               seed, i, workload.requests[i].selector,
                               static_cast<bool>(workload.on_prefix[i])));
      ASSERT_NE(got[i].finished, got[i].refused);
      if (got[i].refused) continue;
      const Completion& completion = got[i].completion;
      totals_.num_preemptions += completion.num_preemptions;
      totals_.num_fetched += completion.kv.fetched_bytes > 0;
      totals_.num_cached += completion.num_cached_tokens > 0;
      totals_.num_forks += workload.on_prefix[i];
      CountSlots(completion, workload.on_prefix[i]);
      const int64_t num_life_pages = PagesFor(
          completion.num_prompt_tokens + workload.requests[i].max_tokens - 1);
      totals_.num_layerwise_cached += completion.num_cached_tokens > 0 &&
                                      num_life_pages * PageBytes(workload) >
                                          workload.options.device_kv_bytes;
      totals_.num_from_disk_with_slots += workload.num_disk_slots > 0 &&
                                          completion.kv.picks > 0 &&
                                          completion.num_cached_tokens > 0;
      if (completion.reason == FinishReason::kCancelled) {
        ++totals_.num_cancelled;
        ASSERT_LE(got[i].bits.size(), expected[i].bits.size());
        ASSERT_TRUE(std::equal(got[i].bits.begin(), got[i].bits.end(),
                               expected[i].bits.begin()));
        continue;
      }
      ASSERT_EQ(got[i].bits, expected[i].bits);
      const KvCounters& kv = completion.kv;
      ASSERT_EQ(kv.num_generated_rows,
                expected[i].completion.kv.num_generated_rows);
      ASSERT_FLOAT_EQ(
          static_cast<float>(kv.tokens_read_share),
          static_cast<float>(expected[i].completion.kv.tokens_read_share));
    }
  }

  const TemporaryFolder folder_{"engine_tiers_oracle"};
  const TemporaryFolder deep_folder_{"engine_tiers_oracle_deep"};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<AheadCounter> late_;
  TinyCase golden_;
  std::array<std::unique_ptr<Model>, 2> models_;  // the second one is deep
  std::mt19937_64 random_;
  Totals totals_;
};

constexpr int kNumParts = 10;

TEST_P(EngineTiersOracleTest, AnswersAreThoseOfTheResident) {
  const int count = NumWorkloads() / kNumParts;
  for (int i = 0; i < count; ++i) {
    RunSeed(static_cast<uint64_t>(GetParam() * count + i), /*is_deep=*/false);
    ASSERT_FALSE(HasFailure());
  }
  // Else nothing was shown.
  EXPECT_GT(totals_.num_forced, count);
  EXPECT_GT(totals_.num_preemptions, totals_.num_forced);
  EXPECT_GT(totals_.num_fetched, count / 10);
  EXPECT_GT(totals_.num_cached, count / 10);
  EXPECT_GT(totals_.num_forks, 0);
  EXPECT_GT(totals_.num_with_slots, count / 2);
  EXPECT_GT(totals_.num_forks_with_slots, 0);
  EXPECT_GT(totals_.num_hints, 0);
  EXPECT_GT(totals_.num_moved_frames, 0);
  EXPECT_GT(totals_.num_missing, count / 2);
  EXPECT_GT(totals_.num_back, 0);
  EXPECT_GT(totals_.num_brought_back, count);
  EXPECT_GT(totals_.num_whole_again, count / 2);
  EXPECT_GT(totals_.num_from_disk, 0);
  EXPECT_GT(totals_.num_from_disk_with_slots, 0);
}

// The same where some are larger than the device's pool.
TEST_P(EngineTiersOracleTest, AnswersOfTheLargeAreThoseOfTheResident) {
  const int count = std::max(8, NumWorkloads() / kNumParts / 2);
  for (int i = 0; i < count; ++i) {
    RunSeed(static_cast<uint64_t>(GetParam() * count + i), /*is_deep=*/true);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(totals_.num_layerwise, count / 2);
  EXPECT_GT(totals_.num_layerwise_with_others, 0);
  EXPECT_GT(totals_.num_layerwise_cached, 0);
  EXPECT_GT(totals_.num_layerwise, totals_.num_refused);
  EXPECT_GT(totals_.num_with_slots, count / 2);
  EXPECT_GT(totals_.num_missing, count / 2);
}

// Both on a device that runs its verbs as late as it may, or some of them at
// any time: steps are launched ahead where there is no disk, and with one, or
// layer by layer, copies wait behind steps.
TEST_P(EngineTiersOracleTest, AnswersOfALateDeviceAreThoseOfTheResident) {
  const int count = NumWorkloads() / kNumParts;
  int num_ahead = 0;
  for (int i = 0; i < count; ++i) {
    const int seed = GetParam() * count + i;
    late_ = std::make_unique<AheadCounter>(std::make_unique<LateBackend>(
        MakeCpuBackend({.num_threads = 1}), static_cast<uint32_t>(seed),
        /*eagerness=*/i % 4 < 2 ? 0 : 0.02));
    RunSeed(static_cast<uint64_t>(seed), /*is_deep=*/i % 2 != 0);
    ASSERT_FALSE(HasFailure());
    num_ahead += late_->num_ahead;
  }
  EXPECT_GT(num_ahead, count);
  EXPECT_GT(totals_.num_layerwise, 0);
  EXPECT_GT(totals_.num_with_slots, count / 2);
  EXPECT_GT(totals_.num_preemptions, count);
  EXPECT_GT(totals_.num_from_disk, 0);
}

INSTANTIATE_TEST_SUITE_P(Parts, EngineTiersOracleTest,
                         testing::Range(0, kNumParts));

}  // namespace
}  // namespace winnow
