#include "backend/cpu/sample/kept_tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "backend/cpu/sample/token_scores.h"
#include "base/check.h"

namespace winnow {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr int64_t kAllTies = std::numeric_limits<int64_t>::max();
constexpr int kBinBits = 11;
constexpr size_t kNumBins = size_t{1} << kBinBits;
using Bins = std::array<uint64_t, kNumBins>;
using BlockWeights = std::array<uint64_t, kTokensPerBlock>;

// What is added up over the tokens.
enum class Measure { kNumber, kWeight };

// Scores whose keys are in [first, last].
struct KeyRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

// Unsigned integers in the order of ordered scores.
uint32_t KeyOf(float score) {
  const auto bits = std::bit_cast<uint32_t>(score);
  const uint32_t negative = ~(bits >> 31) + 1;  // all bits, or none
  return bits ^ (negative | 0x80000000u);
}

float ScoreOfKey(uint32_t key) {
  const uint32_t negative = ~(~key >> 31) + 1;
  return std::bit_cast<float>(key ^ (negative | 0x80000000u));
}

// Calls fn(first, block) for the row's blocks in ascending order until one
// returns true; returns whether one did.
template <typename Fn>
bool AnyBlock(std::span<const float> scores, Fn&& fn) {
  for (size_t first = 0; first < scores.size(); first += kTokensPerBlock) {
    const size_t count = std::min(kTokensPerBlock, scores.size() - first);
    if (fn(first, scores.subspan(first, count))) return true;
  }
  return false;
}

int CountWithin(std::span<const float> scores, float low, float high) {
  int count = 0;
  for (const float score : scores) count += score >= low && score <= high;
  return count;
}

// Adds the measure of every token in `range` to the bin of its score.
void AddToBins(std::span<const float> scores, const WeightScale& scale,
               Measure measure, KeyRange range, int shift, Bins* bins) {
  const float low = ScoreOfKey(range.first);
  const float high = ScoreOfKey(range.last);
  BlockWeights weights;
  AnyBlock(scores, [&](size_t, std::span<const float> block) {
    if (CountWithin(block, low, high) == 0) return false;
    if (measure == Measure::kWeight) {
      FillWeights(block, low, scale, weights.data());
    } else {
      std::fill(weights.begin(), weights.end(), 1);
    }
    for (size_t i = 0; i < block.size(); ++i) {
      const uint32_t offset = KeyOf(block[i]) - range.first;
      if (offset > range.last - range.first) continue;
      (*bins)[offset >> shift] += weights[i];
    }
    return false;
  });
}

// Of the tokens that `kept` keeps above or at its threshold, all ties counted,
// the smallest beginning whose measure is at least `limit`; `kept` itself
// where theirs is less. REQUIRES: limit > 0.
KeptTokens Shorten(std::span<const float> scores, const WeightScale& scale,
                   Measure measure, uint64_t limit, const KeptTokens& kept) {
  KeyRange range{KeyOf(kept.threshold), KeyOf(scale.best)};
  uint64_t above = 0;    // measure of the tokens above the range
  uint64_t at_last = 0;  // measure of the tokens in it
  do {
    const auto width =
        static_cast<int>(std::bit_width(range.last - range.first));
    const int shift = std::max(0, width - kBinBits);
    Bins bins = {};
    AddToBins(scores, scale, measure, range, shift, &bins);
    auto bin = static_cast<uint32_t>((range.last - range.first) >> shift);
    for (; above + bins[bin] < limit; --bin) {
      if (bin == 0) return kept;
      above += bins[bin];
    }
    at_last = bins[bin];
    const uint32_t first = range.first + (bin << shift);
    range.last = std::min(range.last, first + ((1u << shift) - 1));
    range.first = first;
  } while (range.first != range.last);
  const float threshold = ScoreOfKey(range.first);
  const uint64_t each =
      measure == Measure::kNumber ? 1 : TokenWeight(threshold, scale);
  DCHECK(above < limit && limit <= above + at_last,
         "above={} at_last={} limit={}", above, at_last, limit);
  const uint64_t num_ties = (limit - above + each - 1) / each;
  return {threshold, static_cast<int64_t>(num_ties), 0};
}

// The weights of the kept tokens of a block, 0 for the others. Takes the
// block's ties off `ties_left`.
void FillKeptWeights(std::span<const float> block, const KeptTokens& kept,
                     const WeightScale& scale, int64_t* ties_left,
                     BlockWeights* weights) {
  FillWeights(block, kept.threshold, scale, weights->data());
  const int num_ties = CountWithin(block, kept.threshold, kept.threshold);
  if (num_ties <= *ties_left) {
    *ties_left -= num_ties;
    return;
  }
  for (size_t i = 0; i < block.size(); ++i) {
    if (block[i] != kept.threshold) continue;
    if (*ties_left == 0) {
      (*weights)[i] = 0;
    } else {
      --*ties_left;
    }
  }
}

// Sum over the kept tokens.
uint64_t KeptWeight(std::span<const float> scores, const KeptTokens& kept,
                    const WeightScale& scale) {
  const uint64_t with_all_ties = SumWeights(scores, kept.threshold, scale);
  if (kept.num_ties == kAllTies) return with_all_ties;
  uint64_t num_ties = 0;
  AnyBlock(scores, [&](size_t, std::span<const float> block) {
    num_ties += static_cast<uint64_t>(
        CountWithin(block, kept.threshold, kept.threshold));
    return false;
  });
  const uint64_t num_dropped = num_ties - static_cast<uint64_t>(kept.num_ties);
  return with_all_ties - num_dropped * TokenWeight(kept.threshold, scale);
}

// The lowest score with min_p times the best one's probability.
float MinPThreshold(const SamplingRow& row, float best) {
  if (row.min_p <= 0) return kLowestScore;
  const double threshold = best + row.temperature * std::log(double{row.min_p});
  return static_cast<float>(std::max<double>(threshold, kLowestScore));
}

}  // namespace

KeptTokens KeepTokens(std::span<const float> scores, const SamplingRow& row,
                      const WeightScale& scale) {
  CHECK(row.min_p <= 1 && row.top_p >= 0, "min_p={} top_p={}", row.min_p,
        row.top_p);
  KeptTokens kept{MinPThreshold(row, scale.best), kAllTies, 0};
  if (row.top_k > 0 && static_cast<size_t>(row.top_k) < scores.size()) {
    const auto limit = static_cast<uint64_t>(row.top_k);
    kept = Shorten(scores, scale, Measure::kNumber, limit, kept);
  }
  kept.weight = KeptWeight(scores, kept, scale);
  if (row.top_p < 1) {
    // A share of 0 wants weight 1, and the best token has more. The limit is
    // at most kept.weight, so ties that top-k dropped do not come back.
    const double wanted =
        std::ceil(double{row.top_p} * static_cast<double>(kept.weight));
    const uint64_t limit =
        std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, kept.weight);
    kept = Shorten(scores, scale, Measure::kWeight, limit, kept);
    kept.weight = KeptWeight(scores, kept, scale);
  }
  return kept;
}

int32_t DrawToken(std::span<const float> scores, const KeptTokens& kept,
                  const WeightScale& scale, uint64_t random_bits) {
  // In [0, kept.weight): where the draw falls, then how far that is beyond
  // the tokens passed.
  auto rest = static_cast<uint64_t>(Wide{random_bits} * kept.weight >> 64);
  int64_t ties_left = kept.num_ties;
  BlockWeights weights;
  int32_t drawn = -1;
  AnyBlock(scores, [&](size_t first, std::span<const float> block) {
    if (BestScore(block) < kept.threshold) return false;
    FillKeptWeights(block, kept, scale, &ties_left, &weights);
    uint64_t sum = 0;
    for (size_t i = 0; i < block.size(); ++i) sum += weights[i];
    if (rest >= sum) {
      rest -= sum;
      return false;
    }
    size_t i = 0;
    for (; rest >= weights[i]; ++i) rest -= weights[i];
    drawn = static_cast<int32_t>(first + i);
    return true;
  });
  CHECK(drawn >= 0, "rest={} weight={} vocab={}", rest, kept.weight,
        scores.size());
  return drawn;
}

}  // namespace winnow
