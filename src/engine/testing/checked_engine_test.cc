// A model whose every op is compared, through the whole engine.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/checked/checked.h"
#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "engine/testing/hooked_backend.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Keeps the tokens, and what ended them.
class IdsListener : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    ids.push_back(token.token_id);
    return true;
  }
  void OnFinish(const Completion& given) override { completion = given; }

  std::vector<int32_t> ids;
  Completion completion;
};

struct Answer {
  std::vector<int32_t> ids;
  std::string failure;  // empty: none
};

class CheckedEngineTest : public testing::Test {
 protected:
  // Greedy tokens of a tiny model on `backend`; its weights go there too. With
  // `dense_beside` a request without a selector came first: its rows stand in
  // one step with a prompt's.
  static Answer Generate(Backend& backend, const std::string& select,
                         Dtype dtype, bool dense_beside = false) {
    const TinyCase tiny = ReadTinyCase("qwen3");
    const std::unique_ptr<Model> model = LoadTinyModel(tiny, dtype);
    const Status uploaded = model->Upload(backend, {});
    CHECK(uploaded.ok(), "{}", uploaded.error().message);
    EngineOptions options;
    options.device_kv_bytes = 4 << 20;
    options.max_model_len = 128;
    options.max_num_batched_tokens = 48;
    if (!select.empty()) options.selectors = {select};
    const auto engine = Engine::Create(backend, *model, options).value();
    Request request;
    request.prompt = tiny.tokens;
    request.max_tokens = 20;
    request.sampling.temperature = 0;
    IdsListener of_dense;
    if (dense_beside) CHECK(engine->Add(request, &of_dense).ok(), "no room");
    if (!select.empty()) request.selector = 0;
    IdsListener listener;
    const Result<SequenceId> id = engine->Add(std::move(request), &listener);
    CHECK(id.ok(), "{}", id.error().message);
    while (true) {
      const Result<bool> more = engine->Step();
      if (!more.ok()) return {listener.ids, more.error().message};
      if (!*more) return {listener.ids, ""};
    }
  }

  static std::unique_ptr<Backend> Reference() {
    return MakeCpuBackend({.num_threads = 1, .kernels = CpuKernels::kScalar});
  }
};

TEST_F(CheckedEngineTest, BackendsThatAgreeAnswerAsTheSubjectAlone) {
  for (const char* select : {"", "quest:budget=32,block=16,dense_layers=none",
                             "mean:budget=32,dense_layers=none",
                             "retroinfer:budget=8,estimate=16,segment=32,"
                             "cluster=4,recent=8"}) {
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBFloat16}) {
      const auto checked =
          MakeCheckedBackend(MakeCpuBackend({.num_threads = 2}), Reference());
      const Answer run = Generate(*checked, select, dtype);
      EXPECT_EQ(run.failure, "") << select;
      const auto alone = MakeCpuBackend({.num_threads = 2});
      EXPECT_EQ(run.ids, Generate(*alone, select, dtype).ids) << select;
    }
  }
}

TEST_F(CheckedEngineTest, TheFirstOpThatDisagreesIsNamed) {
  auto hooked =
      std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 1}));
  int num_products = 0;
  hooked->pre_linear = [&](const LinearArgs& args) {
    // Of the subject alone: its input is not what the reference has. A norm
    // in the launch would make it anew.
    if (!args.norm && ++num_products == 2) args.x.As<float>()[3] += 10.0f;
  };
  const auto checked = MakeCheckedBackend(std::move(hooked), Reference());
  const Answer run = Generate(*checked, "", Dtype::kFloat32);
  EXPECT_NE(run.failure.find("disagree: op "), std::string::npos)
      << run.failure;
  EXPECT_NE(run.failure.find(", Linear: out float32 "), std::string::npos)
      << run.failure;
}

// A launch that gates has no need to write what it gates, and rows of a Read
// that no op has written yet may stand in its place.
TEST_F(CheckedEngineTest, WhatIsLeftOfAGateAndAnUpIsNoDisagreement) {
  auto hooked =
      std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 1}));
  hooked->post_linear = [&](const LinearArgs& args) {
    if (!args.gated_act) return;
    const View& up = args.gated_act->up;
    for (int64_t row = 0; row < up.dim(0); ++row) {
      std::fill_n(up.Row<float>(row), up.dim(1), 1e9f);
    }
  };
  const auto checked = MakeCheckedBackend(std::move(hooked), Reference());
  EXPECT_EQ(Generate(*checked, "quest:budget=32,block=16,dense_layers=none",
                     Dtype::kFloat32, true)
                .failure,
            "");
}

TEST_F(CheckedEngineTest, AnotherTokenIsADisagreement) {
  auto hooked =
      std::make_unique<HookedBackend>(MakeCpuBackend({.num_threads = 1}));
  hooked->pre_sample = [](const SampleArgs& args) {
    const int64_t vocab = args.logits.dim(1);
    args.logits.As<float>()[vocab - 1] = 1e9f;
  };
  const auto checked = MakeCheckedBackend(std::move(hooked), Reference());
  const Answer run = Generate(*checked, "", Dtype::kFloat32);
  EXPECT_NE(run.failure.find("Sample: token_ids"), std::string::npos)
      << run.failure;
}

}  // namespace
}  // namespace winnow
