#include "backend/cpu/select/cluster_choice.h"

#include <algorithm>

#include "backend/contract/cluster_segment.h"
#include "backend/cpu/isa/prefetch_lines.h"
#include "backend/cpu/select/token_masks.h"

namespace winnow {
namespace {

// What a row may choose among, and how much of it.
struct ClusterBudget {
  int64_t num_tokens = 0;  // in clusters
  int64_t num_clusters = 0;
  int64_t num_read = 0;       // clusters, or with kTokens their tokens
  int64_t num_estimated = 0;  // clusters
  bool all = false;           // every cluster is read
};

ClusterBudget BudgetOf(const SelectProgram& program, int64_t context) {
  const int64_t clustered = NumClusteredTokens(program, context);
  const int64_t sinks =
      std::min<int64_t>(program.forced.sink_tokens, clustered);
  int64_t budget = program.budget.TokensOf(context);
  if (program.forced.inside_budget) {
    budget -= std::min<int64_t>(program.forced.sink_tokens, context);
  }
  ClusterBudget of;
  of.num_tokens = clustered - sinks;
  of.num_clusters = clustered / program.rows.stride;
  const bool by_tokens = program.rule == Rule::kTokens;
  const int64_t most = by_tokens ? of.num_tokens : of.num_clusters;
  of.num_read = std::clamp<int64_t>(
      by_tokens ? budget : budget / program.block_tokens, 0, most);
  of.all = of.num_read == most;
  of.num_estimated =
      std::min(program.estimate.TokensOf(context) / program.block_tokens,
               of.all ? 0 : of.num_clusters - (by_tokens ? 0 : of.num_read));
  return of;
}

// Finds the tokens of a list's clusters: of one after another of a segment
// without looking that up again.
class ListClusters {
 public:
  explicit ListClusters(const ScoreTask& task)
      : task_(task),
        kv_head_(task.first_head /
                 static_cast<int>(task.q.dim(1) / task.cache.num_kv_heads)),
        clusters_each_(task.program.rows.tokens / task.program.rows.stride) {}

  const ScoreTask& task() const { return task_; }
  ClusterTokens TokensOf(int64_t cluster) {
    int64_t in_segment = cluster - segment_.first_row;
    if (in_segment < 0 || in_segment >= segment_.num_clusters) {
      segment_ =
          ClusterSegmentOf(task_.summaries, task_.program.rows, task_.request,
                           kv_head_, cluster / clusters_each_);
      in_segment = cluster - segment_.first_row;
    }
    return {segment_.first_token,
            segment_.TokensOf(static_cast<int>(in_segment))};
  }

 private:
  const ScoreTask& task_;
  const int kv_head_;
  const int64_t clusters_each_;
  ClusterSegment segment_;
};

// Fetches what AddTokens reads: clusters' tokens lie far from one another's.
void Prefetch(const ClusterTokens& of) {
  PrefetchToRead<CacheLevel::kSecond>(of.tokens.data(), std::ssize(of.tokens));
}

// Adds at most `most` of a cluster's tokens, the first ones; returns how many.
int64_t AddTokens(const ClusterTokens& of, int64_t most, TokenMasks& masks) {
  const auto count = std::min<int64_t>(most, std::ssize(of.tokens));
  for (const uint16_t token : of.tokens.first(static_cast<size_t>(count))) {
    masks.Add(of.first + token);
  }
  return count;
}

// The best clusters, in the order of their scores and ties to the lowest index,
// until they have `num_read` tokens: found among somewhat more than have them
// on average, and among twice as many where these do not suffice.
void AddByTokens(ListClusters& clusters, std::span<const float> scores,
                 const ClusterBudget& budget, SelectScratch& scratch,
                 TokenMasks& masks) {
  if (budget.num_read == 0) return;
  int64_t count =
      budget.num_read * budget.num_clusters / budget.num_tokens * 9 / 8 + 1;
  int64_t num_found = 0, num_tokens = 0;
  for (; num_tokens < budget.num_read; count *= 2) {
    CHECK(num_found < budget.num_clusters, "tokens={} of {}", num_tokens,
          budget.num_read);
    num_found = std::min(count, budget.num_clusters);
    scratch.clusters.clear();
    scratch.cluster_scores.clear();
    scratch.cluster_sizes.clear();
    num_tokens = 0;
    for (const int32_t cluster : scratch.top.Best(scores, num_found)) {
      const ClusterTokens of = clusters.TokensOf(cluster);
      Prefetch(of);
      scratch.clusters.push_back(of);
      scratch.cluster_scores.push_back(scores[static_cast<size_t>(cluster)]);
      scratch.cluster_sizes.push_back(static_cast<int32_t>(of.tokens.size()));
      num_tokens += std::ssize(of.tokens);
    }
  }
  const float cut =
      scratch.top.Cut(scratch.cluster_scores, scratch.cluster_sizes,
                      budget.num_read, budget.num_read);
  int64_t num_left = budget.num_read;  // for the clusters at the cut
  for (size_t i = 0; i < scratch.clusters.size(); ++i) {
    if (scratch.cluster_scores[i] > cut) {
      num_left -= AddTokens(scratch.clusters[i], num_left, masks);
    }
  }
  for (size_t i = 0; i < scratch.clusters.size(); ++i) {
    if (scratch.cluster_scores[i] == cut) {
      num_left -= AddTokens(scratch.clusters[i], num_left, masks);
    }
  }
  CHECK(num_left == 0, "left={} of {}: a NaN", num_left, budget.num_read);
}

// The tokens of the clusters that are read, whose indices, with kTopK, stand in
// scratch.ranked then.
void AddBest(ListClusters& clusters, const SelectProgram& program,
             std::span<const float> scores, const ClusterBudget& budget,
             SelectScratch& scratch, TokenMasks& masks) {
  if (program.rule == Rule::kTokens) {
    return AddByTokens(clusters, scores, budget, scratch, masks);
  }
  scratch.ranked.clear();
  if (budget.num_read == 0) return;
  const auto best = scratch.top.Best(scores, budget.num_read);
  scratch.ranked.assign(best.begin(), best.end());
  scratch.clusters.clear();
  for (const int32_t cluster : best) {
    scratch.clusters.push_back(clusters.TokensOf(cluster));
    Prefetch(scratch.clusters.back());
  }
  for (const ClusterTokens& of : scratch.clusters) {
    AddTokens(of, program.rows.tokens, masks);
  }
}

// Those of `more`, ascending, that `fewer` does not have, and that have tokens.
int32_t WriteEstimates(ListClusters& clusters, std::span<const int32_t> more,
                       std::span<const int32_t> fewer, int32_t* estimates) {
  int32_t count = 0;
  size_t next = 0;
  for (const int32_t cluster : more) {
    if (next < fewer.size() && fewer[next] == cluster) {
      ++next;
    } else if (!clusters.TokensOf(cluster).tokens.empty()) {
      estimates[count++] = cluster;
    }
  }
  return count;
}

// The tokens that a larger budget adds to those in `masks`.
int32_t WriteNext(ListClusters& clusters, std::span<const float> scores,
                  const NextRanks& next, int list, const TokenMasks& masks,
                  SelectScratch& scratch) {
  const ScoreTask& task = clusters.task();
  const SelectProgram program =
      WithBudgetTimes(task.program, next.budget_times);
  const ClusterBudget budget = BudgetOf(program, task.context);
  TokenMasks more(PagesFor(task.context), scratch.more_tokens);
  if (budget.all) {
    more.AddRange(0, task.scored_tokens);
  } else {
    AddBest(clusters, program, scores, budget, scratch, more);
  }
  more.Remove(masks);
  return more.Write(0, next.lists.List(task.row, list), next.lists.capacity());
}

}  // namespace

bool ClustersNeedScores(const SelectProgram& program, int64_t context) {
  const ClusterBudget budget = BudgetOf(program, context);
  return !budget.all && (budget.num_read > 0 || budget.num_estimated > 0);
}

void SpreadClusterScores(const ScoreTask& task, std::span<const float> scores,
                         std::span<float> tokens) {
  ListClusters clusters(task);
  const auto count = task.scored_tokens / task.program.rows.stride;
  for (int64_t cluster = 0; cluster < count; ++cluster) {
    const ClusterTokens of = clusters.TokensOf(cluster);
    for (const uint16_t token : of.tokens) {
      tokens[static_cast<size_t>(of.first + token)] =
          scores[static_cast<size_t>(cluster)];
    }
  }
}

ClusterCounts WriteClusterList(const ScoreTask& task, const SelectArgs& args,
                               int list, bool wants_next,
                               SelectScratch& scratch) {
  const SelectProgram& program = task.program;
  const PickLists& lists = args.picks;
  const ClusterBudget budget = BudgetOf(program, task.context);
  TokenMasks masks(PagesFor(task.context), scratch.tokens);
  masks.AddRange(0,
                 std::min<int64_t>(program.forced.sink_tokens, task.context));
  masks.AddRange(budget.all ? 0 : task.scored_tokens, task.context);
  int32_t num_estimates = 0;
  ClusterCounts counts;
  if (ClustersNeedScores(program, task.context)) {
    ListClusters clusters(task);
    const std::span<const float> scores = scratch.scores.Score(
        task, NumVisibleRows(program.rows, task.scored_tokens));
    AddBest(clusters, program, scores, budget, scratch, masks);
    if (program.rule != Rule::kTokens && budget.num_estimated > 0) {
      CHECK(!lists.estimates.empty() &&
                budget.num_estimated <= lists.estimates.dim(2),
            "estimates {} wanted={}", ToString(lists.estimates),
            budget.num_estimated);
      num_estimates = WriteEstimates(
          clusters,
          scratch.top.Best(scores, budget.num_read + budget.num_estimated),
          scratch.ranked, lists.Estimates(task.row, list));
    }
    if (wants_next && budget.num_read > 0) {
      counts.num_next =
          WriteNext(clusters, scores, args.next, list, masks, scratch);
    }
  }
  if (!lists.num_estimates.empty()) {
    lists.NumEstimates(task.row, list) = num_estimates;
  }
  counts.num_picks =
      masks.Write(0, lists.List(task.row, list), lists.capacity());
  return counts;
}

}  // namespace winnow
