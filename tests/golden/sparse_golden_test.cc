// MiniCPM4 with sparse_config, from its config.json to logits and greedy
// tokens, against a float64 transcription of InfLLM-v2 (minicpm4_sparse.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "base/file.h"
#include "engine/engine.h"
#include "source_dir.h"
#include "tests/golden/step_driver.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

using nlohmann::json;

// As that of the dense golden models.
constexpr float kFloat32Bound = 2e-4f;
constexpr int kMaxTokens = 288;

struct SparseGolden {
  std::string name;
  json sparse_config;
  int num_prompt_tokens = 0;
  int num_given_tokens = 0;  // prompt included; the rest were drawn greedily
  std::vector<int32_t> tokens;
  std::vector<int32_t> logit_ids;
  std::vector<float> logits;  // [tokens, logit_ids]
};

std::vector<SparseGolden> ReadSparseGolden() {
  const std::filesystem::path folder =
      std::filesystem::path(WINNOW_SOURCE_DIR) / "tests/golden/sparse";
  const json file =
      json::parse(ReadFile(folder / "cases.json", size_t{1} << 20).value());
  const std::string bytes =
      ReadFile(folder / "logits.bin", size_t{1} << 20).value();
  size_t at = 0;
  std::vector<SparseGolden> list;
  for (const json& item : file.at("cases")) {
    SparseGolden golden = {.name = item.at("name"),
                           .sparse_config = item.at("sparse_config"),
                           .num_prompt_tokens = item.at("num_prompt_tokens"),
                           .num_given_tokens = item.at("num_given_tokens"),
                           .tokens = item.at("tokens"),
                           .logit_ids = file.at("logit_ids"),
                           .logits = {}};
    golden.logits.resize(golden.tokens.size() * golden.logit_ids.size());
    const size_t num_bytes = golden.logits.size() * sizeof(float);
    CHECK(at + num_bytes <= bytes.size(), "bytes={}", bytes.size());
    std::memcpy(golden.logits.data(), bytes.data() + at, num_bytes);
    at += num_bytes;
    list.push_back(std::move(golden));
  }
  CHECK(at == bytes.size(), "bytes={} read={}", bytes.size(), at);
  return list;
}

// The tensors of minicpm4_native with the case's sparse_config.
Model LoadModel(const SparseGolden& golden) {
  TinyCase tiny = ReadTinyCase("minicpm4_native");
  json config = json::parse(tiny.config_json);
  config["sparse_config"] = golden.sparse_config;
  tiny.config_json = config.dump();
  const TemporaryFolder folder("sparse_" + golden.name);
  WriteTinyModel(tiny, folder.path(), {});
  return Model::Load(folder.path(), {}).value();
}

// How the tokens are cut into steps.
struct Cut {
  const char* name;
  int prompt_chunk = 0;     // tokens a step; 0: all
  int generated_chunk = 1;  // rows a step: more are a draft's, or a question
};

constexpr Cut kCuts[] = {
    {.name = "whole"},
    {.name = "token by token", .prompt_chunk = 1},
    {.name = "chunks of 7", .prompt_chunk = 7},
    {.name = "chunks of 64", .prompt_chunk = 64, .generated_chunk = 5}};

// Runs a case's tokens, cut so; f(position, its logits: [vocab]).
template <typename F>
void ForEachRow(const SparseGolden& golden, const SelectProgram& program,
                Backend& backend, const Model& model, const Cut& cut, F&& f) {
  StepDriver driver(backend, model, 1, kMaxTokens);
  driver.Plan(0, kMaxTokens);
  driver.Choose(program);
  const auto num_tokens = static_cast<int>(golden.tokens.size());
  for (int begin = 0; begin < num_tokens;) {
    const bool is_prompt = begin < golden.num_prompt_tokens;
    const int limit = is_prompt ? golden.num_prompt_tokens : num_tokens;
    const int chunk = is_prompt ? cut.prompt_chunk : cut.generated_chunk;
    const int end = chunk == 0 ? limit : std::min(limit, begin + chunk);
    const DrivenRows rows = {.request = 0,
                             .first_position = begin,
                             .token_ids = {golden.tokens.begin() + begin,
                                           golden.tokens.begin() + end},
                             .num_prefill_rows = is_prompt ? end - begin : 0,
                             .num_prompt_tokens = golden.num_prompt_tokens};
    const std::vector<float> logits = driver.Step(std::span(&rows, 1));
    const auto vocab = static_cast<size_t>(model.config().vocab_size);
    for (int i = begin; i < end; ++i) {
      f(i, std::span(logits).subspan(static_cast<size_t>(i - begin) * vocab,
                                     vocab));
    }
    begin = end;
  }
}

class SparseGoldenTest : public testing::TestWithParam<SparseGolden> {
 protected:
  void SetUp() override {
    model_ = std::make_unique<Model>(LoadModel(GetParam()));
  }
  const std::string& spec() const { return **model_->config().native_selector; }

  std::unique_ptr<Model> model_;
};

TEST_P(SparseGoldenTest, Float32LogitsAreThoseOfTheTranscription) {
  const SparseGolden& golden = GetParam();
  const ModelConfig& config = model_->config();
  const Selector selector =
      MakeSelector(spec(), {.num_layers = config.num_layers,
                            .num_q_heads = config.num_q_heads,
                            .num_kv_heads = config.num_kv_heads,
                            .head_dim = config.head_dim,
                            .kv_dtype = model_->dtypes().kv,
                            .max_context_tokens = kMaxTokens,
                            .windows = config.windows})
          .value();
  for (const CpuKernels kernels : {CpuKernels::kScalar, CpuKernels::kBest}) {
    const auto backend = MakeCpuBackend({.num_threads = 1, .kernels = kernels});
    float largest = 0;
    for (const Cut& cut : kCuts) {
      float worst = 0;
      int where = -1;
      ForEachRow(golden, selector.program, *backend, *model_, cut,
                 [&](int i, std::span<const float> logits) {
                   const auto row = static_cast<size_t>(i);
                   for (size_t c = 0; c < golden.logit_ids.size(); ++c) {
                     const float off = std::abs(
                         logits[static_cast<size_t>(golden.logit_ids[c])] -
                         golden.logits[row * golden.logit_ids.size() + c]);
                     if (off <= worst || std::isnan(worst)) continue;
                     worst = off;
                     where = i;
                   }
                   if (i + 1 < golden.num_given_tokens ||
                       row + 1 == golden.tokens.size()) {
                     return;
                   }
                   EXPECT_EQ(std::ranges::max_element(logits) - logits.begin(),
                             golden.tokens[row + 1])
                       << "drawn after position " << i;
                 });
      EXPECT_LE(worst, kFloat32Bound) << cut.name << ", position " << where;
      largest = std::max(largest, worst);
    }
    RecordProperty(fmt::format("largest_{}", CpuKernelsName(kernels)),
                   fmt::format("{:.2e}", largest));
  }
}

class Listener : public RequestObserver {
 public:
  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken& token) override {
    tokens.push_back(token.token_id);
    return true;
  }
  void OnFinish(const Completion&) override {}

  std::vector<int32_t> tokens;
};

// What --select auto gives: the checkpoint's own SPEC, through the engine.
TEST_P(SparseGoldenTest, TheEngineDrawsItsGreedyTokens) {
  const SparseGolden& golden = GetParam();
  const auto num_given = static_cast<int64_t>(golden.num_given_tokens);
  const int num_drawn = static_cast<int>(golden.tokens.size() - num_given);
  if (num_drawn == 0) return;
  const auto backend = MakeCpuBackend({.num_threads = 1});
  for (const int tokens_a_step : {32, 2048}) {
    EngineOptions options;
    options.device_kv_bytes = 4 << 20;
    options.max_model_len = kMaxTokens;
    options.max_num_batched_tokens = tokens_a_step;
    options.selectors = {spec()};
    const std::unique_ptr<Engine> engine =
        Engine::Create(*backend, *model_, options).value();
    Request request;
    request.prompt = {golden.tokens.begin(), golden.tokens.begin() + num_given};
    request.num_question_tokens =
        golden.num_given_tokens - golden.num_prompt_tokens;
    request.max_tokens = num_drawn;
    request.sampling.temperature = 0;
    request.selector = 0;
    Listener listener;
    ASSERT_TRUE(engine->Add(request, &listener).ok());
    while (engine->Step().value()) {
    }
    EXPECT_EQ(listener.tokens,
              std::vector<int32_t>(golden.tokens.begin() + num_given,
                                   golden.tokens.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SparseGoldenTest,
                         testing::ValuesIn(ReadSparseGolden()),
                         [](const auto& golden) { return golden.param.name; });

}  // namespace
}  // namespace winnow
