#include "backend/cpu/sample/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/sample/sample_row.h"

namespace winnow {
namespace {

constexpr int kVocab = 1000;
constexpr int kMaxTop = 5;
constexpr int kMaskWords = (kVocab + 31) / 32;

// The arrays of a step of rows that differ in everything.
struct Step {
  explicit Step(int rows) : num_rows(rows) {
    std::mt19937 random(51);
    std::normal_distribution<float> normal(0, 3);
    for (int row = 0; row < num_rows; ++row) {
      for (int i = 0; i < kVocab; ++i) logits.push_back(normal(random));
      for (int i = 0; i < kMaskWords; ++i) mask.push_back(random());
      SamplingRow params;
      params.temperature = 0.5f * static_cast<float>(row % 4);
      params.top_p = row % 3 == 0 ? 0.9f : 1.0f;
      params.top_k = row % 5 * 30;
      params.repetition_penalty = 1.5f;
      params.num_top_logprobs = row % (kMaxTop + 1);
      params.seed = random();
      params.draw = static_cast<uint64_t>(row);
      params_of_row.push_back(params);
      for (int i = 0; i < row * 3; ++i) seen.push_back({kVocab - 1 - i, i});
      for (int i = 0; i < row; ++i) bias.push_back({i * 7, 2.5f});
      seen_begin.push_back(static_cast<int32_t>(seen.size()));
      bias_begin.push_back(static_cast<int32_t>(bias.size()));
    }
    token_ids.assign(static_cast<size_t>(num_rows), -7);
    logprobs.assign(static_cast<size_t>(num_rows), 7);
    top_ids.assign(static_cast<size_t>(num_rows) * kMaxTop, -7);
    top_logprobs.assign(static_cast<size_t>(num_rows) * kMaxTop, 7);
  }

  SampleArgs Args() {
    SampleArgs args;
    args.logits = MakeView(logits.data(), Dtype::kFloat32, {num_rows, kVocab});
    args.rows = params_of_row.data();
    args.seen_begin =
        MakeView(seen_begin.data(), Dtype::kInt32, {num_rows + 1});
    args.seen = seen.data();
    args.bias_begin =
        MakeView(bias_begin.data(), Dtype::kInt32, {num_rows + 1});
    args.bias = bias.data();
    args.mask = MakeView(mask.data(), Dtype::kUInt32, {num_rows, kMaskWords});
    args.token_ids = MakeView(token_ids.data(), Dtype::kInt32, {num_rows});
    args.logprobs = MakeView(logprobs.data(), Dtype::kFloat32, {num_rows});
    args.top_ids = MakeView(top_ids.data(), Dtype::kInt32, {num_rows, kMaxTop});
    args.top_logprobs =
        MakeView(top_logprobs.data(), Dtype::kFloat32, {num_rows, kMaxTop});
    return args;
  }

  int num_rows;
  std::vector<float> logits;               // [rows, vocab]
  std::vector<SamplingRow> params_of_row;  // [rows]
  std::vector<SeenToken> seen;
  std::vector<TokenBias> bias;
  std::vector<int32_t> seen_begin = {0};  // [rows + 1]
  std::vector<int32_t> bias_begin = {0};  // [rows + 1]
  std::vector<uint32_t> mask;             // [rows, mask words]
  std::vector<int32_t> token_ids;         // [rows]
  std::vector<float> logprobs;            // [rows]
  std::vector<int32_t> top_ids;           // [rows, max top]
  std::vector<float> top_logprobs;        // [rows, max top]
};

TEST(SampleTest, RowsAreThoseOfSampleRow) {
  const Step fresh(12);
  for (const int num_threads : {1, 2, 5}) {
    Step step(12);
    ThreadPool pool(num_threads);
    SampleWorkspace workspace(num_threads);
    SampleScalar(step.Args(), workspace, pool);
    Step alone(12);
    std::vector<float> originals(kVocab);
    for (size_t row = 0; row < 12; ++row) {
      const auto part = [row](auto& all, size_t width) {
        return std::span(all).subspan(row * width, width);
      };
      const auto list = [row](const auto& all, const auto& begin) {
        return std::span(all).subspan(
            static_cast<size_t>(begin[row]),
            static_cast<size_t>(begin[row + 1] - begin[row]));
      };
      const SampledToken token =
          SampleRow({.logits = part(alone.logits, kVocab),
                     .row = alone.params_of_row[row],
                     .seen = list(fresh.seen, fresh.seen_begin),
                     .bias = list(fresh.bias, fresh.bias_begin),
                     .mask = part(alone.mask, kMaskWords).data(),
                     .top_ids = part(alone.top_ids, kMaxTop),
                     .top_logprobs = part(alone.top_logprobs, kMaxTop),
                     .originals = originals});
      EXPECT_EQ(step.token_ids[row], token.token_id) << "row " << row;
      EXPECT_EQ(step.logprobs[row], token.logprob) << "row " << row;
    }
    EXPECT_EQ(step.top_ids, alone.top_ids);
    EXPECT_EQ(step.top_logprobs, alone.top_logprobs);
  }
}

TEST(SampleTest, DoesWithoutListsMaskAndTop) {
  Step step(3);
  for (SamplingRow& row : step.params_of_row) {
    row = {.temperature = 0, .repetition_penalty = 2};
  }
  for (size_t row = 0; row < 3; ++row) step.logits[row * 1001 + 5] = 99;
  SampleArgs args = step.Args();
  args.seen_begin = args.bias_begin = args.mask = View();
  args.top_ids = args.top_logprobs = View();
  SampleWorkspace workspace(1);
  ThreadPool pool(1);
  SampleScalar(args, workspace, pool);
  EXPECT_EQ(step.token_ids, (std::vector<int32_t>{5, 6, 7}));
}

TEST(SampleTest, TakesTheLargestVocabulary) {
  constexpr int32_t kLast = kMaxSampledVocab - 1;
  std::vector<float> logits(kMaxSampledVocab, 1.0f);
  const SamplingRow row = {.repetition_penalty = 2, .seed = 9};
  const SeenToken seen = {.token_id = kLast, .num_generated = 1};
  const TokenBias bias = {.token_id = kLast, .bias = 90};
  std::vector<int32_t> begin = {0, 1};
  int32_t token_id = -7;
  float logprob = 7;
  SampleArgs args;
  args.logits = MakeView(logits.data(), Dtype::kFloat32, {1, kMaxSampledVocab});
  args.rows = &row;
  args.seen_begin = args.bias_begin =
      MakeView(begin.data(), Dtype::kInt32, {2});
  args.seen = &seen;
  args.bias = &bias;
  args.token_ids = MakeView(&token_id, Dtype::kInt32, {1});
  args.logprobs = MakeView(&logprob, Dtype::kFloat32, {1});
  SampleWorkspace workspace(1);
  ThreadPool pool(1);
  SampleScalar(args, workspace, pool);
  EXPECT_EQ(token_id, kLast);
  EXPECT_NEAR(logprob, -19 * std::log(2.0f), 1e-5);
}

TEST(SampleTest, TakesNoRows) {
  Step step(1);
  SampleArgs args = step.Args();
  args.logits = args.logits.Slice(0, 0);
  SampleWorkspace workspace(1);
  ThreadPool pool(1);
  SampleScalar(args, workspace, pool);
  EXPECT_EQ(step.token_ids[0], -7);
}

TEST(SampleDeathTest, NamesTheShapes) {
  Step step(2);
  SampleArgs args = step.Args();
  args.mask.shape[1] -= 1;
  SampleWorkspace workspace(1);
  ThreadPool pool(1);
  EXPECT_DEATH(SampleScalar(args, workspace, pool),
               "logits float32 \\[2, 1000\\] mask uint32 \\[2, 31\\]");
}

}  // namespace
}  // namespace winnow
