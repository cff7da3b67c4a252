// A selector as plain data: written by sparse/, run by a backend.
//
// The types follow the mapping of the published methods onto one shape:
//   score(query, summary row) -> map a head's scores -> reduce over heads
//   -> pool rows to partitions -> choose partitions -> pages with token masks.
// A value is here when a backend runs it; clusters, gates and fixed choices
// add theirs with their selectors.
#ifndef WINNOW_BACKEND_SELECT_PROGRAM_H_
#define WINNOW_BACKEND_SELECT_PROGRAM_H_

#include <cstdint>

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
// They are rounded to `dtype`, once; to float8_e4m3 (summary_table.h) kMinMax
// is rounded outward, so that the bound stays one.
struct SummaryRows {
  enum class Kind : uint8_t { kNone, kKeys, kMean, kMinMax, kCuboid };
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
//   kOutliers  the end is that of the prompt rows. The partitions whose summary
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
  int block_tokens = 32;
  Forced forced;
  Amount budget;  // what is read besides, or with, what is forced
  // Also rows of a prompt choose; else they read all pages.
  bool in_prompt = false;
  // Everything is read by prompt rows where the prompt has fewer tokens, and
  // by generated rows at a position + 1 below it.
  int dense_len = 0;
  FixedChoice fixed = {};
};

// True where what a request keeps depends on it while its prompt is read: such
// a prefix is only its own selector's.
bool BelongsToPrompt(const SelectProgram& program);

// The most picks that one list may have, whatever the scores, of a row whose
// context is at most `max_context` tokens.
int64_t MaxPicks(const SelectProgram& program, int64_t max_context);

// CHECKs what its parts say of one another.
void CheckProgram(const SelectProgram& program);

}  // namespace winnow

#endif  // WINNOW_BACKEND_SELECT_PROGRAM_H_
