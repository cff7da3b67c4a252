// The tokens that a draw chooses from: min-p, top-k and top-p without a sort,
// the same tokens as backend/cpu/sample/kept_tokens.h keeps.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_KEEP_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_KEEP_CUH_

#include "backend/cuda/device/sample/sample_cluster.cuh"
#include "backend/cuda/device/sample/sample_score.cuh"

namespace winnow::device {

// A beginning of the tokens ordered by descending score and ascending id.
struct KeptTokens {
  float threshold;    // all tokens above it are kept
  uint64_t num_ties;  // and of those at it the first by id
  uint64_t weight;    // sum over the kept tokens; > 0
};

struct KeepRules {
  float temperature;  // > 0
  float min_p;
  float top_p;
  int top_k;
};

// What is added up over the tokens.
enum class Measure { kNumber, kWeight };

// Where a sum over tokens by descending score reaches its limit.
struct Cut {
  bool reached;
  float threshold;  // the score that reaches it
  uint64_t above;   // measure of the tokens above
  uint64_t at;      // measure of the tokens at the threshold
};

// Bins of equal width in octaves of weight, from the best score down; the last
// one holds all that is farther.
struct WeightBins {
  static constexpr float kBinsPerOctave = 10.5f;  // 48 octaves, more than weigh
  float threshold;                                // lower scores have no bin
  float best;
  float per_score;

  __device__ int operator()(float score) const {
    if (!(score >= threshold)) return -1;
    const float place = __fmul_rn(__fsub_rn(best, score), per_score);
    constexpr int kLast = kSampleBins - 1;
    return place < static_cast<float>(kLast) ? __float2int_rz(place) : kLast;
  }
};

// Bins of as many adjacent keys each, from the last key down to the first.
struct KeyBins {
  uint32_t first, last;
  int shift;

  __device__ KeyBins(uint32_t first_key, uint32_t last_key)
      : first(first_key), last(last_key) {
    static_assert(kSampleBins == 1 << 9);
    const int width = 32 - __clz(static_cast<int>(last - first));
    shift = width > 9 ? width - 9 : 0;
  }
  __device__ int operator()(float score) const {
    const uint32_t key = KeyOfScore(score);
    if (key < first || key > last) return -1;
    return static_cast<int>((last - key) >> shift);
  }
};

// The sum of the weights of the scores that are not below `threshold`.
__device__ inline uint64_t SumWeights(SampleCluster& cluster,
                                      const SampleSlice& slice, float threshold,
                                      const WeightScale& scale) {
  uint64_t sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < slice.size;
       i += kSampleThreads) {
    const float score = slice.scores[i];
    if (score >= threshold) sum += TokenWeight(score, scale);
  }
  return cluster.Reduce(sum, SumOf());
}

// The bin of bin_of in which the measure of the tokens reaches `wanted`.
template <typename BinOf>
__device__ SampleCluster::Found FindBin(SampleCluster& cluster,
                                        const SampleSlice& slice,
                                        const WeightScale& scale,
                                        Measure measure, uint64_t wanted,
                                        const BinOf& bin_of) {
  cluster.ClearBins();
  for (int i = static_cast<int>(threadIdx.x); i < slice.size;
       i += kSampleThreads) {
    const float score = slice.scores[i];
    const int bin = bin_of(score);
    if (bin < 0) continue;
    const uint64_t amount =
        measure == Measure::kNumber ? 1 : TokenWeight(score, scale);
    if (amount > 0) cluster.AddToBin(bin, amount);
  }
  return cluster.FindBin(wanted);
}

// The lowest and the highest key of a bin's tokens. REQUIRES: it has some.
template <typename BinOf>
__device__ KeyBins KvBlockOfBin(SampleCluster& cluster,
                                const SampleSlice& slice, const BinOf& bin_of,
                                int bin) {
  uint32_t highest = 0;
  uint32_t highest_inverse = 0;
  for (int i = static_cast<int>(threadIdx.x); i < slice.size;
       i += kSampleThreads) {
    const float score = slice.scores[i];
    if (bin_of(score) != bin) continue;
    const uint32_t key = KeyOfScore(score);
    highest = max(highest, key);
    highest_inverse = max(highest_inverse, ~key);
  }
  const uint64_t both = cluster.Reduce(
      static_cast<uint64_t>(highest) << 32 | highest_inverse, MaxOfHalves());
  return KeyBins(~static_cast<uint32_t>(both),
                 static_cast<uint32_t>(both >> 32));
}

// Where the measure of the tokens not below `threshold` reaches `limit` > 0.
// By bins of weight, then by bins of keys between the lowest and the highest
// of the bin where the limit falls, until that is one score: each turn leaves
// at most a 256th of the keys, so there are at most five, and seldom three.
__device__ inline Cut FindCut(SampleCluster& cluster, const SampleSlice& slice,
                              const WeightScale& scale, Measure measure,
                              uint64_t limit, float threshold) {
  const WeightBins by_weight = {
      threshold, scale.best,
      fminf(__fmul_rn(scale.octaves, WeightBins::kBinsPerOctave),
            kHighestScore)};
  auto found = FindBin(cluster, slice, scale, measure, limit, by_weight);
  if (found.bin < 0) return {false, 0, 0, 0};
  uint64_t above = found.above;
  KeyBins by_key = KvBlockOfBin(cluster, slice, by_weight, found.bin);
  while (by_key.first != by_key.last) {
    found = FindBin(cluster, slice, scale, measure, limit - above, by_key);
    above += found.above;
    by_key = KvBlockOfBin(cluster, slice, by_key, found.bin);
  }
  return {true, ScoreOfKey(by_key.last), above, found.inside};
}

// The lowest score with min_p times the best one's probability.
__device__ inline float MinPThreshold(const KeepRules& rules, float best) {
  if (!(rules.min_p > 0)) return kLowestScore;
  const double below = __dmul_rn(static_cast<double>(rules.temperature),
                                 log(static_cast<double>(rules.min_p)));
  const double threshold = __dadd_rn(static_cast<double>(best), below);
  return __double2float_rn(fmax(threshold, double{kLowestScore}));
}

// Keeps, in this order: tokens of at least min_p times the best one's
// probability; the top_k best of them; of these the fewest best ones whose
// share of the probability is at least top_p, and one at least.
// REQUIRES: scale is made with rules.temperature and the best score.
__device__ inline KeptTokens KeepTokens(SampleCluster& cluster,
                                        const SampleSlice& slice,
                                        const KeepRules& rules,
                                        const WeightScale& scale, int vocab) {
  KeptTokens kept = {MinPThreshold(rules, scale.best), ~uint64_t{0}, 0};
  uint64_t num_dropped = 0;  // ties that top-k leaves out
  if (rules.top_k > 0 && rules.top_k < vocab) {
    const auto limit = static_cast<uint64_t>(rules.top_k);
    const Cut cut =
        FindCut(cluster, slice, scale, Measure::kNumber, limit, kept.threshold);
    if (cut.reached) {
      kept = {cut.threshold, limit - cut.above, 0};
      num_dropped = cut.at - kept.num_ties;
    }
  }
  kept.weight = SumWeights(cluster, slice, kept.threshold, scale);
  if (num_dropped > 0) {
    kept.weight -= num_dropped * TokenWeight(kept.threshold, scale);
  }
  if (!(rules.top_p < 1)) return kept;
  const double wanted = ceil(__dmul_rn(static_cast<double>(rules.top_p),
                                       __ull2double_rn(kept.weight)));
  // At least 1, and no more than there is.
  const uint64_t limit = min(max(__double2ull_rz(wanted), 1ull),
                             static_cast<unsigned long long>(kept.weight));
  const Cut cut =
      FindCut(cluster, slice, scale, Measure::kWeight, limit, kept.threshold);
  const uint64_t each = TokenWeight(cut.threshold, scale);
  const uint64_t num_ties = (limit - cut.above + each - 1) / each;
  return {cut.threshold, num_ties, cut.above + num_ties * each};
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_KEEP_CUH_
