// Every tiny model of tests/golden/models against the logits that transformers
// gave for it, in every way that a prompt may be cut into steps.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "model/forward/rope.h"
#include "tests/golden/step_driver.h"
#include "tests/golden/temporary_folder.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// transformers' own float32 logits lie within 3.2e-5 of its float64 ones.
constexpr float kFloat32Bound = 2e-4f;

// How a prompt is cut.
struct Cut {
  const char* name;
  int chunk = 0;              // tokens a step; 0: all
  bool generated = false;     // rows are generated ones, not prefill rows
  bool layer_ranges = false;  // the model is run a layer at a time
};

constexpr Cut kCuts[] = {
    {.name = "whole prompt"},
    {.name = "chunks of 1", .chunk = 1},
    {.name = "chunks of 7", .chunk = 7},
    {.name = "chunks of 64", .chunk = 64},
    {.name = "token by token, generated", .chunk = 1, .generated = true},
    {.name = "layer by layer", .layer_ranges = true},
    {.name = "chunks of 7, layer by layer", .chunk = 7, .layer_ranges = true},
};

// Runs a case's prompt, cut so. Returns the logits that the golden file holds:
// [tokens, logit_ids].
std::vector<float> LogitsOf(const TinyCase& golden, Backend& backend,
                            const Model& model, const Cut& cut) {
  const int num_tokens = static_cast<int>(golden.tokens.size());
  const int vocab = model.config().vocab_size;
  StepDriver driver(backend, model, 1, num_tokens);
  driver.Plan(0, golden.planned_total_tokens);
  std::vector<int> range_ends;
  for (int layer = 1; cut.layer_ranges && layer < model.config().num_layers;
       ++layer) {
    range_ends.push_back(layer);
  }
  const int chunk = cut.chunk == 0 ? num_tokens : cut.chunk;
  std::vector<float> chosen;
  for (int begin = 0; begin < num_tokens; begin += chunk) {
    const int end = std::min(begin + chunk, num_tokens);
    const DrivenRows rows = {
        .request = 0,
        .first_position = begin,
        .token_ids = {golden.tokens.begin() + begin,
                      golden.tokens.begin() + end},
        .num_prefill_rows = cut.generated ? 0 : end - begin};
    const std::vector<float> logits =
        driver.Step(std::span(&rows, 1), range_ends);
    for (int row = 0; row < end - begin; ++row) {
      for (const int32_t id : golden.logit_ids) {
        chosen.push_back(logits[static_cast<size_t>(row * vocab + id)]);
      }
    }
  }
  return chosen;
}

struct Distance {
  float largest = 0;
  size_t where = 0;
  double rms = 0;  // relative to the golden logits' root mean square
};

Distance DistanceOf(const std::vector<float>& actual,
                    const std::vector<float>& golden) {
  CHECK(actual.size() == golden.size());
  Distance distance;
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const float difference = std::abs(actual[i] - golden[i]);
    // Not a number is farther than anything, and stays so.
    if (!(difference <= distance.largest) && !std::isnan(distance.largest)) {
      distance.largest = difference;
      distance.where = i;
    }
    error += double{difference} * difference;
    size += double{golden[i]} * golden[i];
  }
  distance.rms = std::sqrt(error / size);
  return distance;
}

TEST(DistanceTest, NotANumberIsFartherThanAnyBound) {
  const float nan = std::nanf("");
  for (const size_t where : {size_t{0}, size_t{1}, size_t{2}}) {
    std::vector<float> actual = {1, 2, 4};
    actual[where] = nan;
    const Distance distance = DistanceOf(actual, {1, 2, 3});
    EXPECT_FALSE(distance.largest <= 1e30f) << where;
    EXPECT_FALSE(distance.rms <= 1e30) << where;
    EXPECT_EQ(distance.where, where);
  }
  EXPECT_EQ(DistanceOf({1, 2, 4}, {1, 2, 3}).largest, 1);
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, Float32LogitsAreThoseOfTransformers) {
  const TinyCase golden = ReadTinyCase(GetParam());
  const TemporaryFolder folder("golden_" + golden.name);
  WriteTinyModel(golden, folder.path(), {});
  const Model model = Model::Load(folder.path(), {}).value();
  for (const CpuKernels kernels : {CpuKernels::kScalar, CpuKernels::kBest}) {
    const auto backend = MakeCpuBackend({.num_threads = 1, .kernels = kernels});
    float worst = 0;
    for (const Cut& cut : kCuts) {
      const Distance distance =
          DistanceOf(LogitsOf(golden, *backend, model, cut), golden.logits);
      EXPECT_LE(distance.largest, kFloat32Bound)
          << cut.name << ", " << CpuKernelsName(kernels) << ", position "
          << distance.where / golden.logit_ids.size();
      worst = std::max(worst, distance.largest);
    }
    RecordProperty(fmt::format("largest_{}", CpuKernelsName(kernels)),
                   fmt::format("{:.2e}", worst));
  }
}

// bfloat16 has 8 significant bits: unit roundoff u = 2^-8. Rounding moves a
// number by at most u, in the root mean square by 0.425 u (uniform within the
// last place, mantissas spread logarithmically: u sqrt(0.541 / 3)).
//
// A layer rounds eleven times in a row: four weights (q or k or v, o, gate or
// up, down) and seven results (two norms, q or k or v, its rotation, attention,
// gate or up, their product); three more are the embedding, the last norm and
// lm_head. Errors of independent sign add by squares. A relative error of q or
// k is an absolute one of a score, times the score, and softmax hands that on
// as a relative error: each rounding in a layer is charged the scores' root
// mean square g, which the tiny weights fix at 1.75^2, times the square of
// rope's scale. So the logits' error, relative to the logits, has
//
//   rms <= 0.425 u sqrt(11 layers g^2 + 3).
//
// Among N = 80 * 32 logits the largest error is z = sqrt(2 ln N) times its own
// rms, and some position meets a score that is z times g: largest <= z^2 rms.
struct BFloat16Bounds {
  double rms = 0;      // relative to the logits
  double largest = 0;  // absolute
};

BFloat16Bounds BoundsFor(const TinyCase& golden, const ModelConfig& config) {
  std::vector<float> frequencies(
      static_cast<size_t>(config.rope.rotary_dim / 2));
  float scale = 0;
  RopeFrequencies(config.rope, golden.planned_total_tokens, frequencies,
                  &scale);
  const double g = 1.75 * 1.75 * scale * scale;
  double squares = 0;
  for (const float logit : golden.logits) squares += double{logit} * logit;
  const auto count = static_cast<double>(golden.logits.size());
  BFloat16Bounds bounds;
  bounds.rms = 0.425 * 0x1p-8 * std::sqrt(11 * config.num_layers * g * g + 3);
  bounds.largest =
      bounds.rms * std::sqrt(squares / count) * 2 * std::log(count);
  return bounds;
}

TEST_P(GoldenTest, BFloat16StaysWithinItsRoundings) {
  const TinyCase golden = ReadTinyCase(GetParam());
  const TemporaryFolder folder("golden_bf16_" + golden.name);
  WriteTinyModel(golden, folder.path(), {.dtype = Dtype::kBFloat16});
  const Model model = Model::Load(folder.path(), {}).value();
  const BFloat16Bounds bounds = BoundsFor(golden, model.config());
  for (const CpuKernels kernels : {CpuKernels::kScalar, CpuKernels::kBest}) {
    const auto backend = MakeCpuBackend({.num_threads = 1, .kernels = kernels});
    Distance worst;
    for (const Cut& cut : kCuts) {
      const Distance distance =
          DistanceOf(LogitsOf(golden, *backend, model, cut), golden.logits);
      EXPECT_LE(distance.rms, bounds.rms)
          << cut.name << ", " << CpuKernelsName(kernels);
      EXPECT_LE(distance.largest, bounds.largest)
          << cut.name << ", " << CpuKernelsName(kernels) << ", position "
          << distance.where / golden.logit_ids.size();
      worst.rms = std::max(worst.rms, distance.rms);
      worst.largest = std::max(worst.largest, distance.largest);
    }
    RecordProperty(
        fmt::format("bfloat16_{}", CpuKernelsName(kernels)),
        fmt::format("rms {:.4f} of {:.4f}, largest {:.3f} of {:.3f}", worst.rms,
                    bounds.rms, worst.largest, bounds.largest));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, testing::ValuesIn(TinyCaseNames()),
                         [](const auto& tiny) { return tiny.param; });

}  // namespace
}  // namespace winnow
