// Cached prefixes that leave the device for the host, and come back: they are
// found, answers are those of requests that are alone, and who does not need
// the host pays nothing for it.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "base/size_text.h"
#include "engine/engine.h"
#include "engine/hooked_backend.h"
#include "kv/invariants.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class Listener : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    bits.emplace_back(token.token_id, token.logprob);
    return true;
  }
  void OnFinish(const Completion& given) override {
    finished = true;
    completion = given;
  }

  std::vector<std::pair<int32_t, float>> bits;
  Completion completion;
  bool finished = false;
};

class EngineTiersTest : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = ReadTinyCase("llama");
    model_ = LoadTinyModel(golden_, Dtype::kFloat32);
    auto hooked =
        std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 1}));
    hooked->pre_copy = [this](const View&, const View&) { ++num_copies_; };
    backend_ = std::move(hooked);
  }

  int64_t PageBytes() const {
    return kPageTokens * KvBytesPerToken(model_->config(), model_->dtype());
  }
  Result<std::unique_ptr<Engine>> TryEngine(int64_t num_pages,
                                            int64_t host_bytes) {
    return Engine::Create(*backend_, *model_,
                          {.max_model_len = 160,
                           .device_kv_bytes = num_pages * PageBytes(),
                           .host_kv_bytes = host_bytes,
                           .batch_invariant = true});
  }
  std::unique_ptr<Engine> MakeEngine(int64_t num_pages,
                                     int64_t num_host_pages) {
    auto engine = TryEngine(num_pages, num_host_pages * PageBytes());
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }

  // 100 tokens: three whole pages, and four with what is generated.
  Request Ask(int which) const {
    Request request;
    for (int i = 0; i < 100; ++i) {
      const size_t at = static_cast<size_t>(5 * which + 7 * i * i);
      request.prompt.push_back(golden_.tokens[at % golden_.tokens.size()]);
    }
    request.max_tokens = 6;
    request.sampling.temperature = 0;
    return request;
  }

  static Listener Run(Engine& engine, const Request& request) {
    Listener listener;
    const Result<SequenceId> id = engine.Add(request, &listener);
    CHECK(id.ok(), "{}", id.error().message);
    while (true) {
      const Result<bool> more = engine.Step();
      CHECK(more.ok(), "{}", more.error().message);
      EXPECT_EQ(BrokenInvariants(engine.kv().Snapshot()),
                std::vector<std::string>());
      EXPECT_EQ(BrokenInvariants(engine.kv().prefixes().Snapshot()),
                std::vector<std::string>());
      if (!*more) break;
    }
    CHECK(listener.finished);
    return listener;
  }

  TinyCase golden_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Backend> backend_;
  int num_copies_ = 0;
};

TEST_F(EngineTiersTest, PrefixesOutliveTheDevicePool) {
  const std::unique_ptr<Engine> resident = MakeEngine(40, 0);
  const std::unique_ptr<Engine> engine = MakeEngine(5, 12);
  const std::unique_ptr<Engine> without = MakeEngine(5, 0);
  for (int round = 0; round < 3; ++round) {
    for (int which = 0; which < 4; ++which) {
      SCOPED_TRACE(fmt::format("round {} which {}", round, which));
      const Listener got = Run(*engine, Ask(which));
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
      const Listener got = Run(*engine, Ask(which));
      EXPECT_EQ(got.bits, Run(*resident, Ask(which)).bits) << which;
      EXPECT_LE(engine->kv().num_free_host_pages(), num_host_pages);
    }
    EXPECT_EQ(engine->kv().num_host_pages(), num_host_pages);
    EXPECT_LT(engine->kv().prefixes().num_pages(), 5 + num_host_pages + 1);
  }
}

TEST_F(EngineTiersTest, WhoFitsTheDevicePaysNothing) {
  const auto copies_of = [&](int64_t num_host_pages) {
    const std::unique_ptr<Engine> engine = MakeEngine(40, num_host_pages);
    num_copies_ = 0;
    for (const int which : {0, 1, 0, 2}) Run(*engine, Ask(which));
    return num_copies_;
  };
  const int without = copies_of(0);
  EXPECT_GT(without, 0);
  EXPECT_EQ(copies_of(8), without);
}

TEST_F(EngineTiersTest, MemoryForTheHostIsChecked) {
  const auto error_of = [&](int64_t host_bytes) {
    return TryEngine(5, host_bytes).error().message;
  };
  EXPECT_NE(error_of(64).find("host-kv must hold at least one page of"),
            std::string::npos)
      << error_of(64);
  const int64_t left =
      MemoryLeft(backend_->attributes(), *model_) - 5 * PageBytes();
  EXPECT_NE(error_of(left + PageBytes())
                .find("host-kv must be at most " + FormatBytes(left)),
            std::string::npos)
      << error_of(left + PageBytes());
}

}  // namespace
}  // namespace winnow
