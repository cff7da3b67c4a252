// A selector as plain data: written by sparse/, run by a backend.
//
// The types follow the mapping of the published methods onto one shape:
//   score(query, summary row) -> map a head's scores -> reduce over heads
//   -> pool rows to partitions -> choose partitions -> pages with token masks.
// A value is here when a backend runs it; which of them only some backends run
// is said by SelectFeature.
#ifndef WINNOW_BACKEND_CONTRACT_SELECT_PROGRAM_H_
#define WINNOW_BACKEND_CONTRACT_SELECT_PROGRAM_H_

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace winnow {

// For whom one choice is made: each q head, each KV head's group, or all heads
// of the layer.
enum class Scope : uint8_t { kQHead, kKvHead, kLayer };

// What a selector keeps of `tokens` consecutive keys (after RoPE), a row every
// `stride` tokens: row j covers tokens [j * stride, j * stride + tokens), and
// exists as soon as the last of them does.
//   kNone    nothing: no scores, only what is forced is read
//   kKeys    the keys themselves (tokens = stride = 1), read from their pages
//   kMean    their mean: [k_dim]
//   kMinMax  least and greatest of each channel: [2, k_dim]; the score
//            sum_c max(q_c min_c, q_c max_c) bounds q k from above
//            (Quest, arXiv 2406.10774, eq. 2 f.)
//   kCuboid  the same of the box around the centre c = (min + max) / 2 with
//            the mean distance r of the keys: [2, k_dim] = c - r, c + r
//            (ArkVale, NeurIPS 2024, 3.3)
//   kGate    a learned key, [k_dim] (SeerAttention-R, arXiv 2506.08889, 3): of
//            the keys as they were before RoPE the greatest, least and mean of
//            each channel, side by side, times the layer's matrix for the KV
//            head, normalised where the gates say so, turned as RoPE turns the
//            key of the row's first token. A KV head has one query, made from
//            its group's q likewise (gate_weights.h)
//   kClusters  centroids, [k_dim], of segments of `tokens` tokens each: tokens
//   /
//            stride of them a segment, by k-means over its keys (ClusterIndex).
//            Row j belongs to segment j / (tokens / stride)
// They are rounded to `dtype`, once; to float8_e4m3 (summary_table.h) kMinMax
// is rounded outward, so that the bound stays one.
struct SummaryRows {
  enum class Kind : uint8_t {
    kNone,
    kKeys,
    kMean,
    kMinMax,
    kCuboid,
    kGate,
    kClusters
  };
  Kind kind = Kind::kNone;
  int tokens = 0;  // a multiple of stride
  int stride = 0;  // a power of two
  Dtype dtype = Dtype::kFloat32;

  friend bool operator==(const SummaryRows&, const SummaryRows&) = default;
};

// What a head's scores over the visible rows become before heads are reduced:
//   kNone          the raw inner product (or bound)
//   kSoftmax       softmax of scale * score over the rows
//   kExpMinusLse   exp(scale * score - z), z the log-sum-exp of scale * score
//                  over the normaliser's rows; 0 where it has none
enum class HeadMap : uint8_t { kNone, kSoftmax, kExpMinusLse };

enum class Reduction : uint8_t { kMax, kMean, kSum };

// Rows pooled to partitions: partition b takes rows [b * stride - pad,
// b * stride - pad + size), clipped to those that are visible.
struct RowPool {
  Reduction reduction = Reduction::kMax;
  int size = 1, stride = 1, pad = 0;
};

// An amount in tokens, or as a share of the row's context.
struct Amount {
  enum class Unit : uint8_t { kTokens, kShare };
  Unit unit = Unit::kTokens;
  double value = 0;

  // Whole tokens, rounded down.
  int64_t TokensOf(int64_t context) const {
    return static_cast<int64_t>(
        unit == Unit::kTokens ? value : value * static_cast<double>(context));
  }
};

// How ClusterKeys makes clusters of a segment's keys, those of the program's
// first sink_tokens left out; of m keys and c clusters, always the same ones:
//  1. where `centered`, the mean of the keys is taken from each of them;
//  2. centroid i is key floor((i + 0.5) m / c), divided by its length;
//  3. `iterations` times: each key goes to the centroid of greatest inner
//     product, ties to the lowest; a centroid becomes the sum of its keys,
//     divided by its length; one without keys stays;
//  4. each key goes to a centroid once more.
// A summary is the plain mean of a cluster's keys. Where the program estimates,
// the mean of its values and their number are kept too. A cluster without keys
// has no score, and no part in a softmax.
// (RetroInfer assigns, in 4, over all segments: a prefix could not be shared.)
struct ClusterIndex {
  int iterations = 0;
  bool centered = false;

  friend bool operator==(const ClusterIndex&, const ClusterIndex&) = default;
};

// Which partitions are read, by their scores:
//   kTopK       as many of the best as the budget has blocks
//   kThreshold  those with a score above `threshold`, whatever the budget
//   kTokens     the best ones until they have the budget's tokens; of the last
//               one the first tokens, as many as are missing (ClusterKV)
enum class Rule : uint8_t { kTopK, kThreshold, kTokens };

// What is read whatever its score: the partition of the row's own token,
// always, and partitions that hold one of the first sink_tokens or one of the
// recent_tokens before the own partition.
struct Forced {
  int sink_tokens = 0;
  int recent_tokens = 0;
  bool inside_budget = false;  // forced partitions use up the budget
};

// What a request reads in every row from an end on, chosen once, when the last
// token before the end has come. Rows before the end read everything. Rows from
// it on read what is fixed, what is forced (recent tokens are counted back from
// the end), every token from the end on, and the best of the other partitions
// before it. A fixed partition has no score, and no part in a softmax.
//   kObserved  the end is the prompt's. For every token before its last
//              window_tokens: the attention that it has from these, summed over
//              them and the heads of the scope, pooled over `pool.size` tokens
//              (kMean counts as 0 what lies outside); the best are fixed
//              (SnapKV, arXiv 2404.14469). `budget` includes the window, which
//              must be forced.
//   kOutliers  the end is that of the prefill rows. The partitions whose
//   summary
//              row, a mean, has the least cosine with one of its keys
//              (ShadowKV, arXiv 2410.21465, 4.1)
struct FixedChoice {
  enum class Kind : uint8_t { kNone, kObserved, kOutliers };
  Kind kind = Kind::kNone;
  Amount budget;  // of the tokens before the end
  int window_tokens = 0;
  RowPool pool;
};

// How one selector chooses in one layer. Partition b is the tokens
// [b * block_tokens, (b + 1) * block_tokens); block_tokens divides a page or
// is a multiple of it. The best partitions by score are read, ties to the
// lowest index; a partition without a row scores -infinity, as NaN does.
struct SelectProgram {
  Scope scope = Scope::kKvHead;
  SummaryRows rows;
  SummaryRows normalizer;  // a second level that only normalises; or kNone
  HeadMap map = HeadMap::kNone;
  Reduction group = Reduction::kMean;  // over the heads of the scope
  RowPool pool;
  bool rounds_to_bfloat16 = false;  // group sums, before they are pooled
  // The own partition, while it lacks tokens, is in a softmax with a score of
  // 0.
  bool open_scores_zero = false;
  int block_tokens = 32;
  Forced forced;
  Amount budget;  // what is read besides, or with, what is forced
  Rule rule = Rule::kTopK;
  float threshold = 0;
  // Where rows are kClusters. What lies in no segment that ends before the
  // row's last recent_tokens, and before its own token, is read as it is.
  ClusterIndex index = {};
  // The next best clusters, as many as that has blocks: they are read as one
  // key each, of which the cluster's size is the weight (RetroInfer, arXiv
  // 2505.02922, 3: the estimation zone).
  Amount estimate;
  // Also rows of a prompt choose; else they read all pages.
  bool in_prompt = false;
  // Everything is read by prefill rows where the prompt has fewer tokens, and
  // by decode rows at a position + 1 below it.
  int dense_len = 0;
  FixedChoice fixed = {};
};

// What may be asked of Select that not every backend does: a bit each. All but
// the last two a program asks for.
enum class SelectFeature : uint32_t {
  kFixedChoice = 1,
  kFloat8Rows = 2,
  kGate = 4,
  kClusters = 8,
  kNextRanks = 16,
  kScores = 32,
};
inline constexpr uint32_t kEverySelectFeature = 63;

// In words: "a choice that is made once".
std::string_view SelectFeatureName(SelectFeature feature);

// Bits of what the program asks for.
uint32_t FeaturesOf(const SelectProgram& program);

// True where what a request keeps depends on it while its prompt is read: such
// a prefix is only its own selector's.
bool BelongsToPrompt(const SelectProgram& program);

// The program with `times` its budget.
SelectProgram WithBudgetTimes(const SelectProgram& program, double times);

// The most picks that one list may have, whatever the scores, of a row whose
// context is at most `max_context` tokens.
int64_t MaxPicks(const SelectProgram& program, int64_t max_context);

// The same of the clusters that one list estimates.
int64_t MaxEstimates(const SelectProgram& program, int64_t max_context);

// Where rows are kClusters: how many first tokens stand in segments whose
// clusters a row at position `context - 1` chooses among.
int64_t NumClusteredTokens(const SelectProgram& program, int64_t context);

// CHECKs what its parts say of one another.
void CheckProgram(const SelectProgram& program);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_SELECT_PROGRAM_H_
