#include "engine/run/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "engine/testing/null_observer.h"

namespace winnow {
namespace {

// Each is better than the next; 0 to 2 are close together.
const std::vector<float> kLogits = {3.0f, 2.9f, 2.8f, 0.5f, 0, -1, -2, -3};
constexpr int kNumLogits = 8;
constexpr int kMaxRequests = 64;

class SamplerTest : public testing::Test {
 protected:
  // A sequence whose prompt is token 7, and which has generated `generated`.
  const Sequence* Make(const SamplingParams& sampling,
                       const std::vector<int32_t>& generated = {}) {
    Request request;
    request.prompt = {7};
    request.max_tokens = 100;
    request.sampling = sampling;
    sequences_.push_back(std::make_unique<Sequence>(
        SequenceId(sequences_.size() + 1), std::move(request), RequestRope(),
        &observer_));
    FinishReason reason;
    for (const int32_t id : generated) {
      sequences_.back()->Take({.token_id = id, .top = {}}, &reason);
    }
    return sequences_.back().get();
  }

  // Draws for all in one step, each from kLogits.
  std::vector<DrawnToken> Draw(const std::vector<const Sequence*>& sequences) {
    const auto num_rows = static_cast<int>(sequences.size());
    const View logits = sampler_->logits(num_rows);
    for (int row = 0; row < num_rows; ++row) {
      std::ranges::copy(kLogits, logits.Row<float>(row));
    }
    tables_.Clear();
    sampler_->Launch(*queue_, tables_, sequences);
    std::vector<DrawnToken> drawn;
    sampler_->Collect(&drawn);
    return drawn;
  }

  NullObserver observer_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  std::unique_ptr<Queue> queue_ = backend_->MakeQueue();
  std::unique_ptr<Sampler> sampler_ =
      std::move(Sampler::Create(*backend_, kNumLogits, kMaxRequests)).value();
  StepTables tables_ =
      std::move(StepTables::Create(
                    *backend_, Sampler::MaxTableBytes(kMaxRequests, kNumLogits,
                                                      kNumLogits)))
          .value();
};

TEST_F(SamplerTest, EveryParameterReachesItsOwnRow) {
  std::vector<const Sequence*> sequences;
  std::vector<int32_t> expected;
  // A row whose parameters leave one token to draw.
  const auto add = [&](const SamplingParams& sampling,
                       const std::vector<int32_t>& generated, int32_t drawn) {
    sequences.push_back(Make(sampling, generated));
    expected.push_back(drawn);
  };
  add({.temperature = 0}, {}, 0);
  add({.temperature = 0, .presence_penalty = 0.15f}, {0}, 1);
  add({.temperature = 0, .logit_bias = {{0, -100}, {1, -100}}}, {}, 2);
  add({.temperature = 0, .repetition_penalty = 4}, {0, 1}, 2);
  add({.temperature = 0, .frequency_penalty = 0.08f}, {0, 0}, 1);
  add({.temperature = 0, .frequency_penalty = 0.08f}, {0}, 0);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    add({.temperature = 9, .top_p = 0, .seed = seed}, {}, 0);
    add({.temperature = 9, .min_p = 1, .seed = seed}, {}, 0);
    add({.temperature = 9, .top_k = 1, .seed = seed}, {}, 0);
  }
  add({.temperature = 0, .logit_bias = {{6, 6}}}, {}, 6);
  // A prompt's token counts as repeated, but not as generated. Its logit is
  // -3: 4 with the bias, which comes after the penalties; -9 and 2.5.
  add({.temperature = 0, .presence_penalty = 2, .logit_bias = {{7, 7}}}, {}, 7);
  add({.temperature = 0, .repetition_penalty = 3, .logit_bias = {{7, 11.5f}}},
      {}, 0);
  const std::vector<DrawnToken> drawn = Draw(sequences);
  ASSERT_EQ(drawn.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(drawn[i].sequence, sequences[i]->id());
    EXPECT_EQ(drawn[i].token.token_id, expected[i]) << "row " << i;
  }
}

TEST_F(SamplerTest, WhoHasEndedDrawsNothing) {
  const Sequence* first = Make({.temperature = 0});
  const Sequence* last =
      Make({.temperature = 0, .logit_bias = {{6, 6}}, .logprobs = 2});
  const auto drawn = Draw({first, nullptr, last});
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_EQ(drawn[0].sequence, first->id());
  EXPECT_EQ(drawn[0].token.token_id, 0);
  EXPECT_EQ(drawn[1].sequence, last->id());
  EXPECT_EQ(drawn[1].token.token_id, 6);
  EXPECT_EQ(drawn[1].token.top.size(), 2u);
}

TEST_F(SamplerTest, ReportsAsManyAlternativesAsAreAskedFor) {
  const auto drawn = Draw({Make({.logprobs = 2}), Make({}),
                           Make({.temperature = 0, .logprobs = 20})});
  EXPECT_EQ(drawn[0].token.top.size(), 2u);
  EXPECT_EQ(drawn[0].token.top[1].token_id, 1);
  EXPECT_EQ(drawn[1].token.top.size(), 0u);
  EXPECT_EQ(drawn[2].token.top.size(), 8u);  // of a vocabulary of 8
  EXPECT_EQ(drawn[2].token.top[0].logprob, drawn[2].token.logprob);
}

// Each draw of a request takes a number of its own, each seed another row of
// them; which rows stand beside it does not matter.
TEST_F(SamplerTest, NumbersFollowSeedAndDraw) {
  const auto texts = [this](std::vector<uint64_t> seeds) {
    std::vector<std::vector<int32_t>> tokens(seeds.size());
    for (int i = 0; i < 40; ++i) {
      std::vector<const Sequence*> sequences;
      for (size_t s = 0; s < seeds.size(); ++s) {
        sequences.push_back(
            Make({.temperature = 100, .seed = seeds[s]}, tokens[s]));
      }
      const auto drawn = Draw(sequences);
      for (size_t s = 0; s < seeds.size(); ++s) {
        tokens[s].push_back(drawn[s].token.token_id);
      }
    }
    return tokens;
  };
  const auto together = texts({1, 2, 1});
  EXPECT_EQ(together[0], together[2]);
  EXPECT_NE(together[0], together[1]);
  EXPECT_EQ(texts({2})[0], together[1]);
  EXPECT_GE(std::set(together[0].begin(), together[0].end()).size(), 6u);
}

}  // namespace
}  // namespace winnow
