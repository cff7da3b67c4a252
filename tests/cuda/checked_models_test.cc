// Tiny models of every family on a GPU, every op compared with the CPU's
// scalar one: backend/checked/checked.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/checked/checked.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "engine/engine.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

struct CheckedCase {
  std::string model;
  std::string select;  // empty: dense
  Dtype dtype = Dtype::kFloat32;
};

std::string NameOf(const testing::TestParamInfo<CheckedCase>& instance) {
  const CheckedCase& given = instance.param;
  std::string selector = given.select.substr(0, given.select.find(':'));
  std::erase(selector, '-');
  if (given.select.ends_with("summaries=fp8")) selector += "_fp8";
  return fmt::format("{}_{}_{}", given.model,
                     selector.empty() ? "dense" : selector,
                     DtypeName(given.dtype));
}

std::vector<CheckedCase> Cases() {
  std::vector<CheckedCase> cases;
  for (const std::string& model : TinyCaseNames()) {
    for (const Dtype dtype :
         {Dtype::kFloat32, Dtype::kBFloat16, Dtype::kFloat16}) {
      cases.push_back({model, "", dtype});
    }
  }
  for (const char* select :
       {"mean:budget=32,dense_layers=none", "moba:block=32",
        "quest:budget=32,block=16,dense_layers=none",
        "quest:budget=32,block=16,dense_layers=none,summaries=fp8",
        "window:sink=4,recent=32",
        "arkvale:block=16,sink=16,recent=0,budget=64,dense_layers=none",
        "oracle:budget=32",
        "clusterkv:budget=32,segment=32,cluster=8,dense_layers=none",
        "retroinfer:budget=8,estimate=16,segment=32,cluster=4,recent=8",
        "snapkv:budget=24,window=8,kernel=3",
        "shadowkv:budget=16,outliers=16"}) {
    cases.push_back({"llama", select, Dtype::kBFloat16});
  }
  // With gates beside the model.
  cases.push_back(
      {"llama", "seerattention-r:budget=32,block=16", Dtype::kBFloat16});
  cases.push_back(
      {"qwen3", "seerattention-r:threshold=0.1,block=8", Dtype::kBFloat16});
  return cases;
}

class Listener : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override {
    ++num_tokens;
    return true;
  }
  void OnFinish(const Completion&) override {}
  int num_tokens = 0;
};

class CheckedModelsTest : public testing::TestWithParam<CheckedCase> {};

TEST_P(CheckedModelsTest, EveryOpAgrees) {
  Result<std::unique_ptr<Backend>> cuda = StartCudaBackend({});
  ASSERT_TRUE(cuda.ok()) << cuda.error().message;
  const auto backend =
      MakeCheckedBackend(std::move(cuda).value(),
                         MakeCpuBackend({.kernels = CpuKernels::kScalar}));
  const TinyCase tiny = ReadTinyCase(GetParam().model);
  const TemporaryFolder folder("checked");
  WriteTinyModel(tiny, folder.path(), {.dtype = GetParam().dtype});
  Result<Model> loaded = Model::Load(folder.path(), {});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto model = std::make_unique<Model>(std::move(loaded).value());
  WriteTinyGates(model->config(), folder.path());
  const Status uploaded = model->Upload(*backend, {});
  ASSERT_TRUE(uploaded.ok()) << uploaded.error().message;
  EngineOptions options;
  options.device_kv_bytes = 8 << 20;
  options.max_model_len = 128;
  options.max_num_batched_tokens = 48;
  const std::string& select = GetParam().select;
  if (!select.empty()) options.selectors = {select};
  const auto engine = Engine::Create(*backend, *model, options);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  Listener listeners[3];
  for (int i = 0; i < 3; ++i) {
    Request request;
    request.prompt.assign(tiny.tokens.begin() + 7 * i, tiny.tokens.end());
    request.max_tokens = 16;
    request.sampling.temperature = i == 2 ? 0.8f : 0.0f;
    if (!select.empty() && i > 0) request.selector = 0;
    ASSERT_TRUE((*engine)->Add(std::move(request), &listeners[i]).ok());
  }
  while (true) {
    const Result<bool> more = (*engine)->Step();
    ASSERT_TRUE(more.ok()) << more.error().message;
    if (!*more) break;
  }
  for (const Listener& listener : listeners) {
    EXPECT_GT(listener.num_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CheckedModelsTest, testing::ValuesIn(Cases()),
                         NameOf);

}  // namespace
}  // namespace winnow
