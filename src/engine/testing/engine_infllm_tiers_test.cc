// InfLLM-v2, which chooses in prompts too, with all that may befall it at once:
// pages that are not whole, a prefix that others left, prompts in chunks and
// layer by layer, and other requests' rows in its steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/engine_case.h"
#include "engine/testing/hooked_backend.h"
#include "engine/testing/recording_observer.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

const std::vector<std::string> kInfLlmSelectors = {
    "infllm-v2:kernel=8,stride=4,block=32,budget=64,sink=0,recent=0,"
    "dense_len=100",
    "mean:budget=16,block=8,recent=8"};
constexpr int kTextTokens = 96;  // with which all of infllm-v2's begin

// Which request's row, and its how manieth draw: the logits, bit by bit.
using LogitBits = std::map<std::pair<uint64_t, uint64_t>, std::vector<float>>;

struct InfLlmCase {
  Dtype dtype;
  int max_rows;  // a step
};

class EngineInfLlmTiersTest : public testing::TestWithParam<InfLlmCase> {
 protected:
  static constexpr int kInfLlm = 0, kMean = 1, kDense = -1;
  static constexpr int kMaxLength = 512;
  // Those of all requests but the longest.
  static constexpr int kDevicePages = 15, kHostPages = 60, kResidentPages = 40;

  EngineInfLlmTiersTest() {
    backend_.pre_sample = [this](const SampleArgs& args) { Note(args); };
  }

  // Before anything is drawn. Seeds are requests.
  void Note(const SampleArgs& args) {
    const auto num_rows = static_cast<size_t>(args.logits.dim(0));
    const auto vocab = static_cast<size_t>(args.logits.dim(1));
    const auto* logits = reinterpret_cast<const float*>(args.logits.data);
    drawing_.clear();
    for (size_t row = 0; row < num_rows; ++row) {
      const SamplingRow& sampling = args.rows[row];
      drawing_.insert(sampling.seed);
      const float* of_row = logits + row * vocab;
      EXPECT_NE(of_row[0], of_row[1]);  // They are there already.
      ASSERT_TRUE(logits_
                      .try_emplace({sampling.seed, sampling.draw}, of_row,
                                   of_row + vocab)
                      .second);
    }
  }

  std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
    const int64_t page_bytes =
        kPageTokens * KvBytesPerToken(model_->config(), model_->dtypes().kv);
    options.max_model_len = kMaxLength;
    options.device_kv_bytes *= page_bytes;
    options.host_kv_bytes *= page_bytes;
    options.batch_invariant = true;
    options.selectors = kInfLlmSelectors;
    auto engine = Engine::Create(backend_, *model_, options);
    CHECK(engine.ok(), "{}", engine.error().message);
    return std::move(engine).value();
  }
  std::unique_ptr<Engine> MakeResident() {
    return MakeEngine({.max_num_batched_tokens = 2048,
                       .device_kv_bytes = kResidentPages,
                       .prefix_caching = false});
  }
  std::unique_ptr<Engine> MakePressed() {
    return MakeEngine({.max_num_batched_tokens = GetParam().max_rows,
                       .device_kv_bytes = kDevicePages,
                       .host_kv_bytes = kHostPages,
                       .cache_budget = CacheBudget{.tokens = 64}});
  }

  // The first `num_shared` tokens are the text's.
  Request Ask(int selector, int num_shared, int num_tokens, int max_tokens) {
    Request request;
    ++num_asked_;
    for (int i = 0; i < num_tokens; ++i) {
      const int first = i < num_shared ? 5 : 7 + num_asked_;
      request.prompt.push_back(TinyToken(golden_, first, i));
    }
    request.num_question_tokens = 7;
    request.max_tokens = max_tokens;
    request.selector = selector;
    request.sampling.temperature = num_asked_ % 2 == 0 ? 1.5f : 0.0f;
    request.sampling.seed = static_cast<uint64_t>(num_asked_);
    return request;
  }

  void Add(Engine& engine, size_t i) {
    const auto id = engine.Add(requests_[i], &listeners_[i]);
    CHECK(id.ok(), "{}", id.error().message);
  }
  int DrawnBy(size_t i) const {
    return static_cast<int>(listeners_[i].bits.size());
  }

  // Each alone, with everything on the device.
  void ExpectResidentAnswers() {
    const LogitBits got = std::exchange(logits_, {});
    for (size_t i = 0; i < requests_.size(); ++i) {
      RecordingObserver alone;
      const std::unique_ptr<Engine> resident = MakeResident();
      ASSERT_TRUE(resident->Add(requests_[i], &alone).ok());
      while (StepOf(*resident)) {
      }
      EXPECT_EQ(listeners_[i].bits, alone.bits) << "request " << i;
      EXPECT_EQ(alone.completion.kv.picks, 0);
      EXPECT_EQ(alone.completion.num_cached_tokens, 0);
    }
    EXPECT_EQ(got.size(), logits_.size());
    EXPECT_TRUE(got == logits_);
  }

  const TinyCase golden_ = WithLayers(ReadTinyCase("llama"), 4);
  const std::unique_ptr<Model> model_ =
      LoadTinyModel(golden_, GetParam().dtype);
  HookedBackend backend_{MakeCpuBackend({.num_threads = 1})};
  LogitBits logits_;            // of the run so far
  std::set<uint64_t> drawing_;  // in the last step that drew
  std::vector<Request> requests_;
  std::vector<RecordingObserver> listeners_;
  int num_asked_ = 0;
};

// Request 0 leaves the text behind and goes on with slots; 1 and 4 begin with
// it, 4 layer by layer; 2 and 3 are others', of which 2 begins with the text
// too and may not have it as 0 read it.
TEST_P(EngineInfLlmTiersTest, TiersPrefixHitsChunksAndAMixedBatchAtOnce) {
  requests_ = {
      Ask(kInfLlm, kTextTokens, 115, 45), Ask(kInfLlm, kTextTokens, 200, 20),
      Ask(kMean, kTextTokens, 110, 60), Ask(kDense, kTextTokens, 105, 40),
      Ask(kInfLlm, kTextTokens, 480, 24)};
  listeners_.resize(requests_.size());
  const std::unique_ptr<Engine> engine = MakePressed();
  Add(*engine, 0);
  Add(*engine, 2);
  while (DrawnBy(0) < 3) ASSERT_TRUE(StepOf(*engine));
  for (const size_t i : {1, 3, 4}) Add(*engine, i);
  // Steps in which request 1 read a chunk while 0, whose pages were not whole,
  // drew, and 2, by another selector; in which all three drew; and in which 4
  // read rows of a layer while another drew.
  int num_mixed_chunks = 0, num_mixed_draws = 0, num_mixed_layers = 0;
  for (bool more = true; more;) {
    const int num_read = listeners_[1].num_read;
    const int num_read_by_layers = listeners_[4].num_read;
    drawing_.clear();
    more = StepOf(*engine);
    const bool mixed = drawing_.contains(1) && drawing_.contains(3) &&
                       engine->slots()->NumSlotKvBlocks(SequenceId(1)) > 0;
    const bool reads = listeners_[1].num_read > num_read;
    num_mixed_chunks += mixed && reads;
    num_mixed_draws += mixed && drawing_.contains(2);
    num_mixed_layers +=
        listeners_[4].num_read > num_read_by_layers && !drawing_.empty();
  }
  EXPECT_GE(num_mixed_chunks, 2);
  EXPECT_GE(num_mixed_draws, 5);
  EXPECT_GE(num_mixed_layers, 1);
  for (const size_t i : {0, 1, 4}) {
    const KvCounters& kv = listeners_[i].completion.kv;
    EXPECT_GT(kv.misses, 0) << "request " << i;
    EXPECT_GT(kv.hits, 0) << "request " << i;
    EXPECT_GT(kv.host_bytes, 0) << "request " << i;
    EXPECT_LT(kv.tokens_read_share, 0.9) << "request " << i;
    EXPECT_EQ(listeners_[i].completion.num_cached_tokens,
              i == 0 ? 0 : kTextTokens);
  }
  EXPECT_EQ(listeners_[2].completion.num_cached_tokens, 0);
  ExpectResidentAnswers();
}

INSTANTIATE_TEST_SUITE_P(, EngineInfLlmTiersTest,
                         testing::Values(InfLlmCase{Dtype::kFloat32, 40},
                                         InfLlmCase{Dtype::kFloat32, 72},
                                         InfLlmCase{Dtype::kBFloat16, 40},
                                         InfLlmCase{Dtype::kBFloat16, 72}),
                         [](const auto& instance) {
                           return fmt::format("{}By{}",
                                              DtypeName(instance.param.dtype),
                                              instance.param.max_rows);
                         });

}  // namespace
}  // namespace winnow
