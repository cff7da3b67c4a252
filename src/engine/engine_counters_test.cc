// What the engine says of the bytes that it moved is what was copied between
// the tiers' pools, and what it says of requests adds up to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding.h"
#include "base/faulty_folder.h"
#include "base/passing_folder.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Counts what is copied between the device's KV and the host's, by where it
// lies: pages, and layer blocks of those that are read layer by layer.
class CopyCounter final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  int64_t to_host_bytes = 0;
  int64_t to_device_bytes = 0;

  // For the next engine: what lies where the last one's KV lay is another's.
  void Forget() {
    to_host_bytes = to_device_bytes = 0;
    device_.clear();
    host_.clear();
  }

  Result<Buffer> Allocate(Tier tier, size_t num_bytes,
                          std::string_view purpose) override {
    Result<Buffer> buffer = real().Allocate(tier, num_bytes, purpose);
    if (buffer.ok() && purpose.starts_with("KV pool of")) {
      device_.emplace_back(buffer->data(), num_bytes);
    } else if (buffer.ok() && purpose.starts_with("host KV pool of")) {
      host_.emplace_back(buffer->data(), num_bytes);
    }
    return buffer;
  }
  void Copy(Queue& queue, const View& from, const View& to) override {
    if (IsIn(device_, from) && IsIn(host_, to)) to_host_bytes += from.dim(0);
    if (IsIn(host_, from) && IsIn(device_, to)) to_device_bytes += from.dim(0);
    real().Copy(queue, from, to);
  }

 private:
  using Memory = std::vector<std::span<const std::byte>>;

  static bool IsIn(const Memory& memory, const View& view) {
    return std::ranges::any_of(memory, [&view](const auto& piece) {
      return view.data >= piece.data() &&
             view.data < piece.data() + piece.size();
    });
  }

  Memory device_, host_;
};

constexpr auto kDelay = std::chrono::milliseconds(5);

// Takes its time for all that ends.
class DelayedFolder final : public PassingFolder {
 public:
  using PassingFolder::PassingFolder;
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override {
    const size_t num_collected = PassingFolder::Collect(completions, wait);
    if (num_collected > 0) std::this_thread::sleep_for(kDelay);
    return num_collected;
  }
};

const std::vector<std::string> kCountedSelectors = {
    "mean:budget=24,block=8,sink=0,recent=8",
    "mean:budget=16,block=16,recent=8,dense_layers=0",
    "snapkv:budget=20,window=6,kernel=3", "window:sink=8,recent=24"};
constexpr double kLinkRate = 1 << 20;  // bytes a second

class EngineCountersTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    auto counter =
        std::make_unique<CopyCounter>(MakeCpuBackend({.num_threads = 1}));
    copies_ = counter.get();
    backend_ = std::move(counter);
  }

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages, int64_t num_host_pages,
                                     std::unique_ptr<DiskStore> disk = {}) {
    options_.max_model_len = 512;
    options_.device_kv_bytes = num_pages * PageBytes();
    options_.host_kv_bytes = num_host_pages * PageBytes();
    options_.restore_rates = {.link_bytes_per_second = kLinkRate};
    options_.selectors = kCountedSelectors;
    copies_->Forget();
    auto engine = Engine::Create(*backend_, *model_, options_, std::move(disk));
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  // As the next process would find it.
  std::unique_ptr<DiskStore> OpenDisk() {
    const DiskSlotLayout layout(PageBytes());
    return DiskStore::Open(std::make_unique<DelayedFolder>(disk_.Open()),
                           {.header = {.made_with = {{"model", "tiny"}},
                                       .piece_bytes = PageBytes()},
                            .max_bytes = 64 * layout.slot_bytes,
                            .has_own_thread = false})
        .value();
  }

  Request Ask(int which, int num_tokens, int max_tokens,
              int selector = -1) const {
    return TinyRequest(golden_, which, num_tokens, max_tokens, selector);
  }
  static Completion Run(Engine& engine, const Request& request) {
    RecordingObserver listener;
    const Result<SequenceId> id = engine.Add(request, &listener);
    CHECK(id.ok(), "{}", id.error().message);
    while (StepOf(engine)) {
    }
    CHECK(listener.finished);
    return listener.completion;
  }
  static double LinkMs(int64_t num_bytes) {
    return 1000 * static_cast<double>(num_bytes) / kLinkRate;
  }
  // Of all copies that were made, none was forgotten and none was made up.
  void ExpectCopies(const Engine& engine) {
    const EngineCounters counters = engine.counters();
    EXPECT_EQ(counters.traffic.device_to_host_bytes, copies_->to_host_bytes);
    EXPECT_EQ(counters.traffic.host_to_device_bytes,
              copies_->to_device_bytes + counters.brought.fetched_bytes);
  }

  EngineOptions options_ = {.max_num_batched_tokens = 64,
                            .batch_invariant = true};
  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
  CopyCounter* copies_ = nullptr;
  FaultyDisk disk_{1};
};

// Of 279 tokens eight pages leave, each when it is full.
TEST_F(EngineCountersTest, WhoGoesOnWithSlotsWritesEachPageOnce) {
  options_.cache_budget = CacheBudget{.tokens = 32};
  const std::unique_ptr<Engine> engine = MakeEngine(12, 20);
  const Completion got = Run(*engine, Ask(1, 230, 50, 0));
  EXPECT_EQ(got.kv.written_bytes, 8 * PageBytes());
  EXPECT_GT(got.kv.fetched_bytes, 0);
  EXPECT_DOUBLE_EQ(got.kv.stall_ms, LinkMs(got.kv.fetched_bytes));
  const EngineCounters counters = engine->counters();
  EXPECT_EQ(counters.brought.picks, got.kv.picks);
  EXPECT_EQ(counters.brought.misses, got.kv.misses);
  EXPECT_EQ(counters.traffic.device_to_host_bytes, got.kv.written_bytes);
  EXPECT_EQ(counters.traffic.host_to_device_bytes, got.kv.fetched_bytes);
  EXPECT_DOUBLE_EQ(counters.stall_ms, got.kv.stall_ms);
  EXPECT_EQ(counters.num_restores, 0);
  EXPECT_EQ(counters.num_rows, 279);
  ExpectCopies(*engine);
}

// Three pages of 100 tokens stay for the next one; nobody holds them when they
// leave the device, ahead of time or not.
TEST_F(EngineCountersTest, PagesThatNobodyHoldsAreWrittenForNobody) {
  for (const double share : {0.0, 0.5}) {
    options_.write_behind_share = share;
    const std::unique_ptr<Engine> engine = MakeEngine(5, 40);
    int64_t fetched_bytes = 0;
    for (const int which : {0, 1, 2, 0, 1, 2}) {
      const Completion got = Run(*engine, Ask(which, 100, 6));
      EXPECT_EQ(got.kv.written_bytes, 0);
      EXPECT_DOUBLE_EQ(got.kv.stall_ms, LinkMs(got.kv.fetched_bytes));
      fetched_bytes += got.kv.fetched_bytes;
    }
    const EngineCounters counters = engine->counters();
    EXPECT_EQ(fetched_bytes, 9 * PageBytes());
    EXPECT_EQ(counters.traffic.host_to_device_bytes, fetched_bytes);
    EXPECT_GE(counters.traffic.device_to_host_bytes, 7 * PageBytes());
    EXPECT_EQ(counters.num_restores, 3);
    EXPECT_EQ(counters.num_looked_up_tokens, 600);
    EXPECT_EQ(counters.num_found_tokens, 3 * 96);
    ExpectCopies(*engine);
  }
}

// Four pages of the prompt are written while it generates, and what it
// generates when it has ended: for nobody.
TEST_F(EngineCountersTest, TheDisksBytesAreThoseOfWhoIsThere) {
  options_.batch_invariant = false;
  std::unique_ptr<Engine> engine = MakeEngine(40, 0, OpenDisk());
  const Completion first = Run(*engine, Ask(1, 150, 60));
  EXPECT_EQ(first.kv.written_bytes, 4 * PageBytes());
  EXPECT_EQ(first.kv.stall_ms, 0);
  EXPECT_EQ(engine->counters().traffic.host_to_disk_bytes, 6 * PageBytes());
  EXPECT_EQ(engine->counters().traffic.disk_to_host_bytes, 0);
  ExpectCopies(*engine);
  engine = nullptr;
  engine = MakeEngine(40, 0, OpenDisk());
  const Completion second = Run(*engine, Ask(1, 150, 6));
  const EngineCounters counters = engine->counters();
  EXPECT_EQ(second.kv.written_bytes, 0);
  EXPECT_EQ(second.kv.fetched_bytes, 4 * PageBytes());
  EXPECT_GE(second.kv.stall_ms, static_cast<double>(kDelay.count()) +
                                    LinkMs(second.kv.fetched_bytes));
  EXPECT_DOUBLE_EQ(counters.stall_ms, second.kv.stall_ms);
  EXPECT_EQ(counters.traffic.disk_to_host_bytes, 4 * PageBytes());
  EXPECT_EQ(counters.traffic.host_to_disk_bytes, 0);
  EXPECT_EQ(counters.num_restores, 1);
  EXPECT_EQ(counters.num_looked_up_tokens, 150);
  EXPECT_EQ(counters.num_found_tokens, 128);
  ExpectCopies(*engine);
}

// Ten pages where there are seven: nine go to the host layer block by layer
// block, the last full one when it has been read; then one that is filled while
// it generates.
TEST_F(EngineCountersTest, APromptLargerThanThePoolIsWrittenOnce) {
  model_ = LoadTinyModel(golden_ = WithLayers(golden_, 8), Dtype::kFloat32);
  const std::unique_ptr<Engine> engine = MakeEngine(6, 20);
  const Completion first = Run(*engine, Ask(1, 300, 4, 0));
  EXPECT_EQ(first.kv.written_bytes, 9 * PageBytes());
  ExpectCopies(*engine);
  const Completion second = Run(*engine, Ask(1, 300, 4, 0));
  EXPECT_EQ(second.num_cached_tokens, 288);
  EXPECT_EQ(second.kv.written_bytes, 0);
  const EngineCounters counters = engine->counters();
  EXPECT_EQ(counters.traffic.device_to_host_bytes, 9 * PageBytes());
  EXPECT_EQ(counters.traffic.host_to_device_bytes,
            first.kv.fetched_bytes + second.kv.fetched_bytes);
  EXPECT_EQ(counters.num_restores, 1);
  ExpectCopies(*engine);
}

// Whatever says what is copied.
TEST_F(EngineCountersTest, TheLinksRateIsMeasuredWhereNobodyKnowsIt) {
  for (const bool measures_link : {false, true}) {
    options_.measures_link = measures_link;
    options_.max_model_len = 512;
    options_.device_kv_bytes = 5 * PageBytes();
    options_.host_kv_bytes = 20 * PageBytes();
    const std::unique_ptr<Engine> engine =
        Engine::Create(*backend_, *model_, options_).value();
    for (const int which : {0, 1, 0}) Run(*engine, Ask(which, 100, 6));
    EXPECT_EQ(engine->meter().restore_rates().link_bytes_per_second, 0);
    EXPECT_EQ(engine->counters().num_restores, 1);
    EXPECT_EQ(engine->counters().stall_ms > 0, measures_link);
  }
}

TEST_F(EngineCountersTest, WhoIsCancelledWhileTheDiskReadsHasWaited) {
  Run(*MakeEngine(40, 0, OpenDisk()), Ask(1, 150, 6));
  const std::unique_ptr<Engine> engine = MakeEngine(40, 0, OpenDisk());
  RecordingObserver listener;
  const SequenceId id = engine->Add(Ask(1, 150, 6), &listener).value();
  while (engine->kv().num_sequences() == 0) StepOf(*engine);
  engine->Cancel(id);
  const double stall_ms = listener.completion.kv.stall_ms;
  EXPECT_GT(stall_ms, 0);
  // Some of its pages may have come already, for nobody.
  const EngineCounters counters = engine->counters();
  EXPECT_EQ(listener.completion.kv.fetched_bytes, 0);
  EXPECT_DOUBLE_EQ(counters.stall_ms,
                   stall_ms + LinkMs(counters.traffic.host_to_device_bytes));
}

// Of all seeds, so that something is shown.
struct Totals {
  int64_t written_bytes = 0;
  EngineCounters counters;
};

// Requests at random in little room, which are preempted, leave the device and
// come back when they are told to.
class EngineCountersOracleTest : public EngineCountersTest {
 protected:
  void SetUp() override {
    EngineCountersTest::SetUp();
    model_ = LoadTinyModel(golden_ = WithLayers(golden_, 4), Dtype::kFloat32);
  }

  int Below(int end) {
    return static_cast<int>(random_() % static_cast<uint32_t>(end));
  }
  Request AnyRequest() {
    if (Below(4) == 0) return Ask(Below(2), 330, 1 + Below(9), 0);
    return Ask(Below(3), 40 + Below(130), 1 + Below(60), Below(5) - 1);
  }
  void Disturb(Engine& engine, const std::vector<SequenceId>& ids) {
    if (Below(6) == 0) engine.ReclaimIdle(Below(4));
    if (ids.empty()) return;
    const SequenceId id =
        ids[static_cast<size_t>(Below(static_cast<int>(ids.size())))];
    if (Below(8) == 0) engine.Preempt(id);
    if (Below(6) == 0) engine.Demote(id);
    if (Below(6) == 0 && engine.kv().is_open(id)) {
      engine.Promote(id, engine.kv().NumFar(id));
    }
    if (Below(60) == 0) engine.Cancel(id);
  }
  std::vector<Completion> RunAny(Engine& engine) {
    std::vector<RecordingObserver> listeners(10);
    std::vector<SequenceId> ids;
    bool more = true;
    while (more || ids.size() < listeners.size()) {
      if (ids.size() < listeners.size() && Below(4) == 0) {
        ids.push_back(engine.Add(AnyRequest(), &listeners[ids.size()]).value());
      }
      Disturb(engine, ids);
      more = StepOf(engine);
    }
    std::vector<Completion> completions;
    for (const RecordingObserver& listener : listeners) {
      EXPECT_TRUE(listener.finished);
      completions.push_back(listener.completion);
    }
    return completions;
  }

  static void ExpectSums(const EngineCounters& counters,
                         const std::vector<Completion>& completions) {
    KvCounters sums;
    int64_t num_preemptions = 0;
    for (const auto& completion : completions) {
      sums.hits += completion.kv.hits;
      sums.misses += completion.kv.misses;
      sums.fetched_bytes += completion.kv.fetched_bytes;
      sums.written_bytes += completion.kv.written_bytes;
      sums.stall_ms += completion.kv.stall_ms;
      num_preemptions += completion.num_preemptions;
    }
    const KvTraffic& traffic = counters.traffic;
    EXPECT_EQ(counters.num_preemptions, num_preemptions);
    EXPECT_EQ(counters.brought.hits, sums.hits);
    EXPECT_EQ(counters.brought.misses, sums.misses);
    EXPECT_LE(counters.num_found_tokens, counters.num_looked_up_tokens);
    EXPECT_LE(sums.written_bytes,
              traffic.device_to_host_bytes + traffic.host_to_disk_bytes);
    // Of one that ends while its pages come not all has come that was to.
    const bool any_cancelled =
        std::ranges::any_of(completions, [](const Completion& completion) {
          return completion.reason == FinishReason::kCancelled;
        });
    EXPECT_LE(traffic.host_to_device_bytes, sums.fetched_bytes);
    if (any_cancelled) return;
    EXPECT_EQ(traffic.host_to_device_bytes, sums.fetched_bytes);
    EXPECT_NEAR(counters.stall_ms, sums.stall_ms, 1e-6 * sums.stall_ms);
  }

  void Add(const EngineCounters& counters,
           const std::vector<Completion>& completions) {
    for (const auto& completion : completions) {
      totals_.written_bytes += completion.kv.written_bytes;
    }
    EngineCounters& sum = totals_.counters;
    sum.num_preemptions += counters.num_preemptions;
    sum.num_restores += counters.num_restores;
    sum.brought += counters.brought;
    sum.traffic.device_to_host_bytes += counters.traffic.device_to_host_bytes;
    sum.traffic.disk_to_host_bytes += counters.traffic.disk_to_host_bytes;
  }

  std::mt19937 random_;
  Totals totals_;
};

TEST_F(EngineCountersOracleTest, WhateverHappensCopiesAddUp) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    options_.cache_budget.reset();
    if (Below(2) == 0) options_.cache_budget = CacheBudget{.tokens = 32};
    options_.write_behind_share = Below(3) * 0.2;
    const std::unique_ptr<Engine> engine =
        MakeEngine(10, 16 + Below(20), Below(3) == 0 ? OpenDisk() : nullptr);
    const std::vector<Completion> completions = RunAny(*engine);
    ExpectCopies(*engine);
    ExpectSums(engine->counters(), completions);
    Add(engine->counters(), completions);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(totals_.written_bytes, 0);
  const EngineCounters& sum = totals_.counters;
  EXPECT_GT(sum.traffic.device_to_host_bytes, totals_.written_bytes);
  EXPECT_GT(sum.traffic.disk_to_host_bytes, 0);
  EXPECT_GT(sum.brought.misses, 0);
  EXPECT_GT(sum.num_preemptions, 0);
  EXPECT_GT(sum.num_restores, 0);
}

}  // namespace
}  // namespace winnow
