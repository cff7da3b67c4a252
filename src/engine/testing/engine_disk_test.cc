// Prefixes that outlive their engine on a disk: the next one begins with them,
// and its answers are those of an engine that has no disk, whatever the disk
// does.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/faulty_folder.h"
#include "base/passing_folder.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Takes its time for all that ends.
class SlowFolder final : public PassingFolder {
 public:
  using PassingFolder::PassingFolder;
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override {
    const size_t num_collected = PassingFolder::Collect(completions, wait);
    if (num_collected > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return num_collected;
  }
};

class EngineDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    backend_ = MakeCpuBackend({.num_threads = 1});
    options_ = {.max_model_len = 224,
                .max_num_batched_tokens = 64,
                .device_kv_bytes = 40 * PageBytes(),
                .batch_invariant = true};
  }

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  std::unique_ptr<Engine> MakeEngine(std::unique_ptr<DiskStore> disk) {
    auto engine = Engine::Create(*backend_, *model_, options_, std::move(disk));
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  // As the next process would have it.
  std::unique_ptr<Engine> Restart(bool has_own_thread = false) {
    return RestartOn(disk_.Open(), has_own_thread);
  }
  std::unique_ptr<Engine> RestartOn(std::unique_ptr<BlockFolder> folder,
                                    bool has_own_thread) {
    const DiskSlotLayout layout(PageBytes());
    auto store = DiskStore::Open(std::move(folder),
                                 {.header = {.made_with = {{"model", "tiny"}},
                                             .piece_bytes = PageBytes()},
                                  .max_bytes = num_slots_ * layout.slot_bytes,
                                  .has_own_thread = has_own_thread});
    CHECK(store.ok(), "{}", store.error().message);
    return MakeEngine(std::move(store).value());
  }

  // `num_tokens` tokens of one text, a question behind a page's end.
  Request Ask(int which, int num_tokens = 150) const {
    Request request;
    for (int i = 0; i < num_tokens; ++i) {
      request.prompt.push_back(TinyToken(golden_, 5 * which, i));
    }
    request.max_tokens = 6;
    request.sampling.temperature = 0;
    return request;
  }

  // All at once, to the end of what the disk has to do.
  static std::vector<RecordingObserver> Run(
      Engine& engine, const std::vector<Request>& requests) {
    std::vector<RecordingObserver> listeners(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result<SequenceId> id = engine.Add(requests[i], &listeners[i]);
      CHECK(id.ok(), "{}", id.error().message);
    }
    while (true) {
      const Result<bool> more = engine.Step();
      CHECK(more.ok(), "{}", more.error().message);
      ExpectInvariants(engine);
      if (!*more) break;
    }
    for (const RecordingObserver& listener : listeners)
      EXPECT_TRUE(listener.finished);
    EXPECT_EQ(engine.kv().num_sequences(), 0);
    EXPECT_EQ(engine.kv().num_free_pages(), engine.kv().num_pages());
    return listeners;
  }
  static RecordingObserver Run(Engine& engine, const Request& request) {
    return Run(engine, std::vector<Request>{request}).front();
  }
  static void ExpectInvariants(const Engine& engine) {
    EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }
  // Without a disk, and alone.
  RecordingObserver RunAlone(const Request& request) {
    const std::unique_ptr<Engine> engine = MakeEngine(nullptr);
    return Run(*engine, request);
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
  EngineOptions options_;
  FaultyDisk disk_{1};
  int64_t num_slots_ = 64;
};

TEST_F(EngineDiskTest, TheNextEngineBeginsWithWhatIsThere) {
  for (const bool has_own_thread : {false, true}) {
    for (int round = 0; round < 3; ++round) {
      SCOPED_TRACE(fmt::format("thread {} round {}", has_own_thread, round));
      const std::unique_ptr<Engine> engine = Restart(has_own_thread);
      const bool is_there = round > 0 || has_own_thread;
      for (const int which : {1, 2}) {
        const RecordingObserver got = Run(*engine, Ask(which));
        EXPECT_EQ(got.completion.num_cached_tokens, is_there ? 128 : 0);
        EXPECT_EQ(got.completion.kv.fetched_bytes,
                  is_there ? 4 * PageBytes() : 0);
        EXPECT_EQ(got.bits, RunAlone(Ask(which)).bits);
      }
      EXPECT_EQ(engine->disk()->store().counts().num_written, is_there ? 0 : 8);
      EXPECT_EQ(engine->disk()->store().counts().num_read, is_there ? 8 : 0);
    }
  }
}

// Bits depend on the kernels, and on no number of threads.
TEST_F(EngineDiskTest, IsTheSameForAnyNumberOfThreads) {
  const RecordingObserver first = Run(*Restart(), Ask(1));
  backend_ = MakeCpuBackend({.num_threads = 3});
  const RecordingObserver again = Run(*Restart(), Ask(1));
  EXPECT_EQ(again.completion.num_cached_tokens, 128);
  EXPECT_EQ(again.bits, first.bits);
  backend_ =
      MakeCpuBackend({.num_threads = 1, .kernels = CpuKernels::kPortable});
  EXPECT_EQ(Run(*Restart(), Ask(1)).completion.num_cached_tokens, 0);
}

TEST_F(EngineDiskTest, WhatIsComputedSoonerIsNotRead) {
  Run(*Restart(), Ask(1));
  // 128 rows take two steps, 128 ms.
  RestoreRates rates = {
      .computing = {.row_ms = 1, .most = {.rows = 64, .reads = 1e6}},
      .max_step_rows = 64};
  for (const double restore_ms : {127, 129}) {
    rates.disk_bytes_per_second =
        static_cast<double>(4 * PageBytes()) / (restore_ms / 1000);
    options_.restore_rates = rates;
    const std::unique_ptr<Engine> engine = Restart();
    const RecordingObserver got = Run(*engine, Ask(1));
    EXPECT_EQ(got.completion.num_cached_tokens, restore_ms < 128 ? 128 : 0);
    EXPECT_EQ(engine->disk()->store().counts().num_read,
              restore_ms < 128 ? 4 : 0);
    EXPECT_EQ(got.bits, RunAlone(Ask(1)).bits);
  }
}

TEST_F(EngineDiskTest, ASlowDiskIsFoundOut) {
  Run(*Restart(), {Ask(1), Ask(2)});
  options_.restore_rates = std::nullopt;
  const std::unique_ptr<Engine> engine =
      RestartOn(std::make_unique<SlowFolder>(disk_.Open()),
                /*has_own_thread=*/true);
  // How long rows take; how long the disk does; so what is read.
  EXPECT_EQ(Run(*engine, Ask(3)).completion.num_cached_tokens, 0);
  EXPECT_EQ(Run(*engine, Ask(1)).completion.num_cached_tokens, 128);
  const RecordingObserver got = Run(*engine, Ask(2));
  EXPECT_EQ(got.completion.num_cached_tokens, 0);
  EXPECT_EQ(engine->disk()->store().counts().num_read, 4);
  EXPECT_EQ(got.bits, RunAlone(Ask(2)).bits);
}

TEST_F(EngineDiskTest, WhatTheDeviceHasIsNotReadAgain) {
  Run(*Restart(), Ask(1));
  const std::unique_ptr<Engine> engine = Restart();
  // Two pages, then the four that begin with them.
  EXPECT_EQ(Run(*engine, Ask(1, 70)).completion.num_cached_tokens, 64);
  EXPECT_EQ(engine->disk()->store().counts().num_read, 2);
  const RecordingObserver got = Run(*engine, Ask(1));
  EXPECT_EQ(got.completion.num_cached_tokens, 128);
  EXPECT_EQ(engine->disk()->store().counts().num_read, 4);
  EXPECT_EQ(got.bits, RunAlone(Ask(1)).bits);
}

TEST_F(EngineDiskTest, ManyAtOnceInLittleRoom) {
  options_.device_kv_bytes = 11 * PageBytes();
  std::vector<Request> requests;
  for (int i = 0; i < 9; ++i) requests.push_back(Ask(i % 4));
  for (int round = 0; round < 3; ++round) {
    const std::unique_ptr<Engine> engine = Restart();
    const std::vector<RecordingObserver> got = Run(*engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(got[i].bits, RunAlone(requests[i]).bits) << i;
      if (round > 0) {
        EXPECT_EQ(got[i].completion.num_cached_tokens, 128) << i;
      }
    }
  }
}

TEST_F(EngineDiskTest, BesideAHost) {
  options_.device_kv_bytes = 6 * PageBytes();
  options_.host_kv_bytes = 7 * PageBytes();
  for (int round = 0; round < 3; ++round) {
    const std::unique_ptr<Engine> engine = Restart();
    for (int i = 0; i < 8; ++i) {
      const Request request = Ask(i * i % 5);
      const RecordingObserver got = Run(*engine, request);
      EXPECT_EQ(got.bits, RunAlone(request).bits) << i;
      if (round > 0) {
        EXPECT_EQ(got.completion.num_cached_tokens, 128) << i;
      }
    }
  }
}

// Pages stay whole until they are written, then leave for the host; those that
// came from the disk do too.
TEST_F(EngineDiskTest, BesideSlots) {
  options_.device_kv_bytes = 9 * PageBytes();
  options_.host_kv_bytes = 12 * PageBytes();
  options_.cache_budget = CacheBudget{.tokens = 32};
  options_.selectors = {"mean:budget=24,block=8,sink=0,recent=8"};
  for (int round = 0; round < 2; ++round) {
    const std::unique_ptr<Engine> engine = Restart();
    for (int i = 0; i < 5; ++i) {
      Request request = Ask(i % 3);
      request.selector = 0;
      request.max_tokens = 20;
      const RecordingObserver got = Run(*engine, request);
      EXPECT_GT(got.completion.kv.misses, 0) << i;
      EXPECT_EQ(got.completion.num_cached_tokens, round + i / 3 > 0 ? 128 : 0);
      options_.host_kv_bytes = 0;
      options_.cache_budget.reset();
      EXPECT_EQ(got.bits, RunAlone(request).bits) << i;
      options_.host_kv_bytes = 12 * PageBytes();
      options_.cache_budget = CacheBudget{.tokens = 32};
    }
    EXPECT_EQ(engine->disk()->store().counts().num_written,
              round == 0 ? 12 : 0);
  }
}

TEST_F(EngineDiskTest, GeneratedPagesAreKeptWhereBitsMayDependOnThem) {
  options_.batch_invariant = false;
  Request first = Ask(1, 120);
  first.max_tokens = 60;
  const RecordingObserver answer = Run(*Restart(), first);
  Request second = Ask(1, 120);
  for (const auto& [token, logprob] : answer.bits) {
    second.prompt.push_back(token);
  }
  // 120 + 60 tokens, of which the last has no KV: five pages.
  EXPECT_EQ(Run(*Restart(), second).completion.num_cached_tokens, 160);
  options_.batch_invariant = true;
  EXPECT_EQ(Run(*Restart(), second).completion.num_cached_tokens, 0)
      << "bits of the one are not promised to the other";
}

TEST_F(EngineDiskTest, RequestsThatTakeNoPartLeaveNothing) {
  Request request = Ask(1);
  request.cache_prefix = false;
  Run(*Restart(), request);
  Request salted = Ask(1);
  salted.cache_salt = "mine";
  Run(*Restart(), salted);
  EXPECT_EQ(Run(*Restart(), Ask(1)).completion.num_cached_tokens, 0);
  EXPECT_EQ(Run(*Restart(), salted).completion.num_cached_tokens, 128);
  EXPECT_EQ(Run(*Restart(), request).completion.num_cached_tokens, 0);
}

TEST_F(EngineDiskTest, MayBeCancelledWhileItsPagesCome) {
  Run(*Restart(), Ask(1));
  for (int num_steps = 0; num_steps < 5; ++num_steps) {
    const std::unique_ptr<Engine> engine = Restart();
    RecordingObserver listener;
    const Result<SequenceId> id = engine->Add(Ask(1), &listener);
    ASSERT_TRUE(id.ok());
    for (int i = 0; i < num_steps; ++i) ASSERT_TRUE(engine->Step().ok());
    engine->Cancel(*id);
    EXPECT_TRUE(listener.finished);
    ExpectInvariants(*engine);
    EXPECT_EQ(Run(*engine, Ask(1)).bits, RunAlone(Ask(1)).bits);
  }
}

TEST_F(EngineDiskTest, AFaultOfTheDiskIsAMiss) {
  const std::vector<FolderFaults> all = {{.read_error = 0.5},
                                         {.write_error = 0.5},
                                         {.short_transfer = 0.7},
                                         {.is_full = true},
                                         {.is_read_only = true}};
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    disk_.faults() = {};
    const std::unique_ptr<Engine> engine = Restart();
    disk_.faults() = all[static_cast<size_t>(round) % all.size()];
    for (int flips = round % 3; flips > 0; --flips) disk_.FlipBit();
    const int which = round / 2 % 6;
    EXPECT_EQ(Run(*engine, Ask(which)).bits, RunAlone(Ask(which)).bits);
  }
}

}  // namespace
}  // namespace winnow
