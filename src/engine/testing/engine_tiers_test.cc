// Cached prefixes that leave the device for the host, and come back: they are
// found, answers are those of requests that are alone, and who does not need
// the host pays nothing for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "base/size_text.h"
#include "engine/testing/engine_invariants.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class EngineTiersTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    auto hooked =
        std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 1}));
    hooked->pre_copy = [this](const View&, const View&) { ++num_copies_; };
    hooked->pre_linear = [this](const LinearArgs&) { ++num_products_; };
    backend_ = std::move(hooked);
  }

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
  }
  Result<std::unique_ptr<Engine>> TryEngine(int64_t num_pages,
                                            int64_t host_bytes,
                                            const RestoreRates& rates = {}) {
    return Engine::Create(*backend_, *model_,
                          {.max_model_len = 192,
                           .device_kv_bytes = num_pages * PageBytes(),
                           .host_kv_bytes = host_bytes,
                           .restore_rates = rates,
                           .batch_invariant = true});
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages, int64_t num_host_pages,
                                     const RestoreRates& rates = {}) {
    auto engine = TryEngine(num_pages, num_host_pages * PageBytes(), rates);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  // 100 tokens: three whole pages, and four with what is generated.
  Request Ask(int which) const {
    Request request;
    for (int i = 0; i < 100; ++i) {
      request.prompt.push_back(TinyToken(golden_, 5 * which, i));
    }
    request.max_tokens = 6;
    request.sampling.temperature = 0;
    return request;
  }

  static void ExpectSound(const Engine& engine) {
    EXPECT_EQ(BrokenInvariants(engine), std::vector<std::string>());
  }
  static void RunToEnd(Engine& engine) {
    while (true) {
      const Result<bool> more = engine.Step();
      CHECK(more.ok(), "{}", more.error().message);
      ExpectSound(engine);
      if (!*more) break;
    }
  }
  static RecordingObserver Run(Engine& engine, const Request& request) {
    RecordingObserver listener;
    const Result<SequenceId> id = engine.Add(request, &listener);
    CHECK(id.ok(), "{}", id.error().message);
    RunToEnd(engine);
    CHECK(listener.finished);
    return listener;
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
  int num_copies_ = 0;
  int num_products_ = 0;
};

TEST_F(EngineTiersTest, PrefixesOutliveTheDevicePool) {
  const std::unique_ptr<Engine> resident = MakeEngine(40, 0);
  const std::unique_ptr<Engine> engine = MakeEngine(5, 12);
  const std::unique_ptr<Engine> without = MakeEngine(5, 0);
  for (int round = 0; round < 3; ++round) {
    for (int which = 0; which < 4; ++which) {
      SCOPED_TRACE(fmt::format("round {} which {}", round, which));
      const RecordingObserver got = Run(*engine, Ask(which));
      const int num_cached = round == 0 ? 0 : 96;
      EXPECT_EQ(got.completion.num_cached_tokens, num_cached);
      EXPECT_EQ(got.bits, Run(*resident, Ask(which)).bits);
      EXPECT_EQ(Run(*without, Ask(which)).completion.num_cached_tokens, 0);
      const KvCounters& kv = got.completion.kv;
      EXPECT_EQ(kv.device_bytes, 4 * PageBytes());
      EXPECT_EQ(kv.fetched_bytes > 0, round > 0);
      // What came back lies there still, as there is room.
      EXPECT_EQ(kv.host_bytes, kv.fetched_bytes);
    }
  }
  EXPECT_EQ(engine->kv().num_free_pages(), engine->kv().num_pages());
}

// Less room than is wanted: what is found is less, and right.
TEST_F(EngineTiersTest, AHostThatIsFullForgets) {
  const std::unique_ptr<Engine> resident = MakeEngine(40, 0);
  for (const int num_host_pages : {1, 2, 5}) {
    const std::unique_ptr<Engine> engine = MakeEngine(5, num_host_pages);
    for (int i = 0; i < 9; ++i) {
      const int which = i * i % 4;
      const RecordingObserver got = Run(*engine, Ask(which));
      EXPECT_EQ(got.bits, Run(*resident, Ask(which)).bits) << which;
      EXPECT_LE(engine->kv().num_free_host_pages(), num_host_pages);
    }
    EXPECT_EQ(engine->kv().num_host_pages(), num_host_pages);
    EXPECT_LT(engine->kv().prefixes().num_pages(), 5 + num_host_pages + 1);
  }
}

// Two of three pages are on the host. A page has 32 rows.
TEST_F(EngineTiersTest, PagesComeFromTheHostWhereThatIsSooner) {
  const auto bytes_per_second = static_cast<double>(PageBytes());
  for (const double rows_per_second : {31.0, 33.0}) {
    const std::unique_ptr<Engine> engine =
        MakeEngine(20, 20,
                   {.link_bytes_per_second = bytes_per_second,
                    .computing = {.row_ms = 1000 / rows_per_second,
                                  .most = {.rows = 64, .reads = 1e6}},
                    .max_step_rows = 64});
    const RecordingObserver first = Run(*engine, Ask(0));
    engine->ReclaimIdle(2);
    const RecordingObserver second = Run(*engine, Ask(0));
    const bool is_fetched = rows_per_second < 32;
    EXPECT_EQ(second.completion.num_cached_tokens, is_fetched ? 96 : 32);
    EXPECT_EQ(second.completion.kv.fetched_bytes,
              is_fetched ? 2 * PageBytes() : 0);
    EXPECT_EQ(second.bits, first.bits);
  }
}

TEST_F(EngineTiersTest, WhoFitsTheDevicePaysNothing) {
  const auto calls_of = [&](int64_t num_host_pages) {
    const std::unique_ptr<Engine> engine = MakeEngine(40, num_host_pages);
    num_copies_ = num_products_ = 0;
    for (const int which : {0, 1, 0, 2}) Run(*engine, Ask(which));
    return std::pair(num_copies_, num_products_);
  };
  const std::pair<int, int> without = calls_of(0);
  EXPECT_GT(without.first, 0);
  EXPECT_GT(without.second, 0);
  EXPECT_EQ(calls_of(8), without);
}

// Copied in the steps before, a page leaves without a copy.
TEST_F(EngineTiersTest, RoomIsThereBeforeItIsWanted) {
  const auto copies_of_first_step = [&](double share) {
    const std::unique_ptr<Engine> engine =
        Engine::Create(*backend_, *model_,
                       {.max_model_len = 192,
                        .device_kv_bytes = 20 * PageBytes(),
                        .host_kv_bytes = 20 * PageBytes(),
                        .write_behind_share = share,
                        .batch_invariant = true})
            .value();
    for (int which = 0; which < 6; ++which) Run(*engine, Ask(which));
    EXPECT_EQ(engine->kv().Snapshot().device.num_free, 2);
    Request request = Ask(6);  // four pages
    RecordingObserver listener;
    CHECK(engine->Add(request, &listener).ok());
    num_copies_ = 0;
    CHECK(engine->Step().ok());
    const int num_copies = num_copies_;
    RunToEnd(*engine);
    for (const int which : {0, 6}) {
      EXPECT_EQ(Run(*engine, Ask(which)).completion.num_cached_tokens, 96);
    }
    return num_copies;
  };
  const int without = copies_of_first_step(0);
  const int with = copies_of_first_step(0.2);
  constexpr int kPagesThatLeave = 2;  // a copy a layer
  EXPECT_EQ(without - with, kPagesThatLeave * model_->config().num_layers);
}

// Three that grow until no two of them fit the pool.
TEST_F(EngineTiersTest, TheYoungestGivesWayAndTheOldestIsNeverStopped) {
  const std::unique_ptr<Engine> resident = MakeEngine(40, 0);
  for (const int num_host_pages : {1, 30}) {
    const std::unique_ptr<Engine> engine = MakeEngine(6, num_host_pages);
    // From one that ends soon the others are expected to do so too.
    Request brief = Ask(3);
    brief.max_tokens = 1;
    Run(*engine, brief);
    std::vector<RecordingObserver> listeners(3);
    const auto ask = [&](int which) {
      Request request = Ask(which);
      request.prompt.resize(20);
      request.max_tokens = 141;
      return request;
    };
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(engine->Add(ask(i), &listeners[static_cast<size_t>(i)]).ok());
    }
    RunToEnd(*engine);
    for (int i = 0; i < 3; ++i) {
      const RecordingObserver& got = listeners[static_cast<size_t>(i)];
      EXPECT_EQ(got.bits, Run(*resident, ask(i)).bits) << i;
      EXPECT_EQ(got.bits.size(), 141u);
      EXPECT_EQ(got.completion.num_preemptions > 0, i > 0) << i;
      EXPECT_EQ(got.completion.num_cached_tokens, 0);
    }
    EXPECT_EQ(listeners[2].completion.kv.fetched_bytes > 0,
              num_host_pages == 30);
  }
}

// What can never fit is refused as ever: nobody is preempted to it in vain.
TEST_F(EngineTiersTest, WhatTheDeviceCannotHoldAloneIsRefused) {
  const std::unique_ptr<Engine> engine = MakeEngine(4, 40);
  Request request = Ask(0);
  request.max_tokens = 30;
  RecordingObserver listener;
  const Result<SequenceId> id = engine->Add(request, &listener);
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.error().message.find("device-kv holds " +
                                    FormatBytes(4 * PageBytes())),
            std::string::npos)
      << id.error().message;
}

TEST_F(EngineTiersTest, AThousandComeAndGoAndNothingIsLost) {
  const std::unique_ptr<Engine> engine = MakeEngine(6, 7);
  std::mt19937 random(3);
  const auto below = [&](uint32_t end) {
    return static_cast<int>(random() % end);
  };
  std::vector<RecordingObserver> listeners(1000);
  std::vector<SequenceId> ids;
  int num_preemptions = 0;
  const auto step = [&] {
    const Result<bool> more = engine->Step();
    CHECK(more.ok(), "{}", more.error().message);
    ExpectSound(*engine);
    return *more;
  };
  for (RecordingObserver& listener : listeners) {
    Request request = Ask(below(3));
    request.prompt.resize(static_cast<size_t>(1 + below(70)));
    request.max_tokens = below(4) == 0 ? 40 + below(50) : 1 + below(3);
    ids.push_back(engine->Add(std::move(request), &listener).value());
    if (below(10) == 0) {
      engine->Cancel(ids[ids.size() - 1 -
                         static_cast<size_t>(below(std::min<uint32_t>(
                             9, static_cast<uint32_t>(ids.size()))))]);
    }
    for (int i = below(12); i > 0; --i) step();
  }
  while (step()) {
  }
  for (const RecordingObserver& listener : listeners) {
    ASSERT_TRUE(listener.finished);
    num_preemptions += listener.completion.num_preemptions;
  }
  EXPECT_GT(num_preemptions, 50);
  const KvSnapshot kv = engine->kv().Snapshot();
  EXPECT_EQ(HeldByNobody(*engine), std::vector<std::string>());
  EXPECT_EQ(std::ssize(kv.indexed), kv.device.num_in_use);
  EXPECT_EQ(std::ssize(kv.indexed_on_host), kv.host.num_in_use);
}

TEST_F(EngineTiersTest, MemoryForTheHostIsChecked) {
  const auto error_of = [&](int64_t host_bytes) {
    return TryEngine(5, host_bytes).error().message;
  };
  EXPECT_NE(error_of(64).find("host-kv must hold at least one page of"),
            std::string::npos)
      << error_of(64);
  EXPECT_EQ(TryEngine(5, 64).error().code, ErrorCode::kInvalidArgument);
  const int64_t left =
      MemoryLeft(backend_->attributes(), *model_) - 5 * PageBytes();
  EXPECT_NE(error_of(left + PageBytes())
                .find("host-kv must be at most " + FormatBytes(left)),
            std::string::npos)
      << error_of(left + PageBytes());
  // What is beyond memory by itself is named, and not what it leaves.
  const int64_t all = MemoryLeft(backend_->attributes(), *model_);
  const std::string beyond =
      TryEngine(all / PageBytes() + 1, PageBytes()).error().message;
  EXPECT_NE(beyond.find("device-kv must be at most " + FormatBytes(all)),
            std::string::npos)
      << beyond;
}

}  // namespace
}  // namespace winnow
