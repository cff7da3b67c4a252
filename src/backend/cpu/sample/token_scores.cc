#include "backend/cpu/sample/token_scores.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/check.h"

namespace winnow {
namespace {

// One maximum a lane, because the compiler may not reorder maxima of floats.
constexpr size_t kLanes = 16;
using Lanes = std::array<float, kLanes>;

Lanes NoLanes() {
  Lanes lanes;
  lanes.fill(kExcludedScore);
  return lanes;
}

float& ScoreOf(int32_t token_id, std::span<float> scores) {
  CHECK(token_id >= 0 && static_cast<size_t>(token_id) < scores.size(),
        "token_id={} vocab={}", token_id, scores.size());
  return scores[static_cast<size_t>(token_id)];
}

}  // namespace

float OrderScores(std::span<float> scores) {
  for (float& score : scores) score = Ordered(score);
  return BestScore(scores);
}

float BestScore(std::span<const float> scores) {
  Lanes best = NoLanes();
  size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float score = scores[i + lane];
      best[lane] = score > best[lane] ? score : best[lane];
    }
  }
  for (; i < scores.size(); ++i) best[0] = std::max(best[0], scores[i]);
  return *std::max_element(best.begin(), best.end());
}

int32_t FirstTokenWith(std::span<const float> scores, float score) {
  const auto found = std::find(scores.begin(), scores.end(), score);
  CHECK(found != scores.end(), "score={} vocab={}", score, scores.size());
  return static_cast<int32_t>(found - scores.begin());
}

void ApplyPenalties(std::span<const SeenToken> seen, const SamplingRow& row,
                    std::span<float> scores) {
  const float repetition = row.repetition_penalty;
  for (const SeenToken& token : seen) {
    float& score = ScoreOf(token.token_id, scores);
    score = Ordered(score > 0 ? score / repetition : score * repetition);
    if (token.num_generated > 0) {
      const auto times = static_cast<float>(token.num_generated);
      score -= row.frequency_penalty * times;
      score = Ordered(score - row.presence_penalty);
    }
  }
}

void ApplyBias(std::span<const TokenBias> bias, std::span<float> scores) {
  for (const TokenBias& token : bias) {
    float& score = ScoreOf(token.token_id, scores);
    score = Ordered(score + token.bias);
  }
}

void ApplyMask(const uint32_t* mask, std::span<float> scores) {
  constexpr size_t kBitsPerWord = 32;
  for (size_t first = 0; first < scores.size(); first += kBitsPerWord) {
    const uint32_t word = mask[first / kBitsPerWord];
    if (word == ~uint32_t{0}) continue;
    const size_t count = std::min(kBitsPerWord, scores.size() - first);
    for (size_t i = 0; i < count; ++i) {
      if ((word >> i & 1) == 0) scores[first + i] = kExcludedScore;
    }
  }
}

}  // namespace winnow
