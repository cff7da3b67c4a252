// A selector as kernels take it, and what it asks of one row before any score
// is known.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_ROW_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_ROW_CUH_

#include "backend/cuda/device/rows/step_rows.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/select/fixed_table.cuh"
#include "backend/cuda/device/select/summary_rows.cuh"

namespace winnow::device {

// As in backend/contract/select_program.h.
enum class Scope : uint8_t { kQHead, kKvHead, kLayer };
enum class HeadMap : uint8_t { kNone, kSoftmax, kExpMinusLse };
enum class Reduction : uint8_t { kMax, kMean, kSum };

// SelectProgram with its summaries.
struct Selector {
  bool has_program;  // false: dense in this layer, nothing else is set
  Scope scope;
  HeadMap map;
  Reduction group;
  Reduction pool;
  int pool_size, pool_stride, pool_pad;
  bool rounds_to_bfloat16;
  bool open_scores_zero;
  int block_tokens;
  int sink_blocks, recent_blocks;  // partitions that sinks and recent tokens
                                   // fill, the last one rounded up
  bool inside_budget;
  bool budget_is_share;
  double budget;
  bool by_threshold;  // Rule::kThreshold
  float threshold;
  // Where rows are clusters.
  int sink_tokens, recent_tokens;
  bool cuts_tokens;  // Rule::kTokens
  bool estimate_is_share;
  double estimate;
  bool in_prompt;
  int dense_len;
  bool keeps_lists;   // for layers to come: this one reads everything
  bool reuses_lists;  // of an earlier layer: none are made
  // Where a choice is fixed: of the tokens before its end.
  bool fixed_is_share;
  double fixed_budget;
  FixedTable fixed;
  Summaries summaries;

  // Group sums are formed where the scores are, unless a head's scores must
  // be mapped first or each head chooses for itself.
  __host__ __device__ bool SumsGroups() const {
    return map == HeadMap::kNone && scope != Scope::kQHead;
  }
  // Whether a list's scores are still several planes when they are computed,
  // or one that must be mapped.
  __host__ __device__ bool NeedsReduce() const {
    return map != HeadMap::kNone || scope == Scope::kLayer;
  }
  __host__ __device__ bool HasClusters() const {
    return summaries.levels[0].kind == SummaryKind::kClusters;
  }
  // Whether a KV head's group has one query, which gates make.
  __host__ __device__ bool HasGate() const {
    return summaries.levels[0].kind == SummaryKind::kGate;
  }
  // Planes of scores of a row.
  __host__ __device__ int NumPlanes(int num_q_heads, int num_kv_heads) const {
    return SumsGroups() || HasGate() ? num_kv_heads : num_q_heads;
  }
  __host__ __device__ bool Fixes() const {
    return fixed.kind != FixedKind::kNone;
  }
  // Whether lists are made as masks of pages.
  __host__ __device__ bool ChoosesByMasks() const {
    return HasClusters() || Fixes() || by_threshold;
  }
  // Whether a partition's score is of other rows than one of its own.
  __host__ __device__ bool Pools() const {
    return pool_size > 1 || pool_stride > 1 || pool_pad > 0;
  }
  // The level whose log-sum-exp maps scores; -1: none.
  __device__ int NormalizingLevel() const {
    return map == HeadMap::kNone ? -1 : map == HeadMap::kSoftmax ? 0 : 1;
  }
  __device__ float Reduce(float a, float b) const {
    // Orders as std::max: a NaN that comes first stays.
    return group != Reduction::kMax ? a + b : a < b ? b : a;
  }
  // The last thing that happens to a summary row's score of num_heads heads.
  __device__ float FinishRow(float reduced, int num_heads) const {
    if (group == Reduction::kMean) reduced /= static_cast<float>(num_heads);
    return rounds_to_bfloat16 ? ToFloat(FromFloat<__nv_bfloat16>(reduced))
                              : reduced;
  }
  // Whether a row reads every page: `length` is the prompt's for a prefill row.
  __device__ bool ReadsAll(const StepRows& rows, const RowPlace& row) const {
    if (row.position < fixed.End(rows, row.request)) return true;
    if (row.is_prompt && !in_prompt) return true;
    const int length =
        row.is_prompt ? rows.num_prompt_tokens[row.request] : row.position + 1;
    return length < dense_len;
  }
  __device__ bool ReadsAll(const StepRows& rows, int row) const {
    return ReadsAll(rows, rows.Place(row));
  }
};

// Whole tokens of an amount (Amount::TokensOf).
__device__ inline int64_t TokensOf(double amount, bool is_share, int context) {
  return static_cast<int64_t>(is_share ? amount * context : amount);
}

// Which partitions of a row's context are read whatever their score, and how
// many scores choose: all that a list's length depends on.
struct RowBudget {
  int num_partitions;
  int first_free, end_free;  // the others are forced
  int num_fixed;             // of the free ones: always read
  int count;                 // of the free ones that are not fixed
  bool by_threshold;         // scores choose, however many

  // `fixed_end`: FixedTable::End of the row's request.
  __device__ RowBudget(const Selector& selector, int context, int fixed_end) {
    const int own = (context - 1) / selector.block_tokens;
    const int last = fixed_end > 0 ? fixed_end / selector.block_tokens : own;
    num_partitions = own + 1;
    first_free = min(selector.sink_blocks, last);
    end_free = max(last - selector.recent_blocks, first_free);
    num_fixed = fixed_end > 0 ? NumFixed(selector, fixed_end) : 0;
    by_threshold = selector.by_threshold;
    // All of the context is also the last partition, whole or not; and 32 bits
    // divide sooner.
    const int64_t tokens =
        TokensOf(selector.budget, selector.budget_is_share, context);
    int most = tokens >= context
                   ? num_partitions
                   : static_cast<int>(tokens) / selector.block_tokens;
    if (selector.inside_budget) most -= first_free + num_partitions - end_free;
    count = min(max(most, 0), num_open());
  }
  __device__ int num_open() const { return end_free - first_free - num_fixed; }
  __device__ bool NeedsScores() const {
    return by_threshold ? num_open() > 0 : count > 0 && count < num_open();
  }
  // Free partitions stand before the row's own, so all their tokens count.
  __device__ int64_t NumTokens(const Selector& selector, int context) const {
    const int64_t left = end_free - first_free - count;
    return context - left * selector.block_tokens;
  }

 private:
  // How many are fixed where the end is `end`: as many as were chosen there.
  __device__ int NumFixed(const Selector& selector, int end) const {
    const int block = selector.block_tokens;
    int64_t most =
        TokensOf(selector.fixed_budget, selector.fixed_is_share, end) / block;
    if (selector.fixed.kind == FixedKind::kObserved) {
      most -= selector.fixed.window_tokens / block;
    }
    const int64_t num_free = end_free - first_free;
    return static_cast<int>(most < 0 ? 0 : most < num_free ? most : num_free);
  }
};

// The same of a row whose selector has clusters, which it chooses among.
struct ClusterBudget {
  int clustered_tokens;  // the first ones, in segments
  int num_clusters;
  int num_read;       // clusters, or with cuts_tokens their tokens
  int num_estimated;  // clusters that come next
  bool all;           // every cluster is read

  __device__ ClusterBudget(const Selector& selector, int context)
      : clustered_tokens(ClusteredTokens(selector, context)),
        num_clusters(clustered_tokens / selector.summaries.levels[0].stride) {
    int64_t budget =
        TokensOf(selector.budget, selector.budget_is_share, context);
    if (selector.inside_budget) budget -= min(selector.sink_tokens, context);
    if (!selector.cuts_tokens) budget /= selector.block_tokens;
    const int most =
        selector.cuts_tokens
            ? clustered_tokens - min(selector.sink_tokens, clustered_tokens)
            : num_clusters;
    num_read = static_cast<int>(budget < 0 ? 0 : budget < most ? budget : most);
    all = num_read == most;
    const int left =
        all ? 0 : num_clusters - (selector.cuts_tokens ? 0 : num_read);
    const int64_t next =
        TokensOf(selector.estimate, selector.estimate_is_share, context) /
        selector.block_tokens;
    num_estimated = static_cast<int>(next < left ? next : left);
  }
  __device__ bool NeedsScores() const {
    return !all && (num_read > 0 || num_estimated > 0);
  }

 private:
  __device__ static int ClusteredTokens(const Selector& selector, int context) {
    const int segment = selector.summaries.levels[0].tokens;
    return max(context - 1 - selector.recent_tokens, 0) / segment * segment;
  }
};

// What a row asks of scores: whether they decide, and among how many first
// tokens the summary rows are scored.
struct ScoreNeed {
  bool decides;
  int scored_tokens;

  __device__ ScoreNeed(const Selector& selector, const StepRows& rows,
                       int row) {
    const int context = rows.Position(row) + 1;
    if (selector.HasClusters()) {
      const ClusterBudget budget(selector, context);
      decides = budget.NeedsScores();
      scored_tokens = budget.clustered_tokens;
      return;
    }
    const int fixed_end = selector.fixed.End(rows, rows.Request(row));
    const RowBudget budget(selector, context, fixed_end);
    decides = budget.NeedsScores();
    scored_tokens =
        fixed_end > 0 ? budget.end_free * selector.block_tokens : context;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_ROW_CUH_
