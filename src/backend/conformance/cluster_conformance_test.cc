// The conformance suite, part nine: Select over clusters and Attend of what it
// chose, against float64, from what ClusterKeys has left. (That is held to be
// right by cluster_keys_conformance_test, and the selectors by tests/oracle.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/conformance/closeness.h"
#include "backend/conformance/cluster_oracle.h"
#include "backend/conformance/host_summaries.h"
#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"

namespace winnow {
namespace {

// Makes a request's keys few, so that most clusters have no token.
void DrawFewKeys(SparseCase& sparse, size_t request, RandomSource& random) {
  TestArray keys = sparse.paged.keys(request);
  const int64_t size = keys.dim(1) * keys.dim(2);
  const TestArray few = RandomArray(keys.dtype, {3, size}, random);
  for (int64_t token = 0; token < keys.dim(0); ++token) {
    std::copy_n(few.values.begin() + random.Between(0, 2) * size, size,
                keys.values.begin() + token * size);
  }
  sparse.paged.SetKeysAndValues(request, std::move(keys),
                                sparse.paged.values(request));
}

// Requests that decode, some of which also have prefill rows; one has no
// selector, one another kind of it.
SparseCase ClusterCase(RandomSource& random) {
  KvShape shape = RandomKvShape(random);
  shape.k_dim = random.Among({16, 32, 64});
  shape.v_dim = random.Chance(0.7) ? shape.k_dim : 24;
  std::vector<RequestRows> requests;
  for (int64_t i = 0; i < random.Between(1, 4); ++i) {
    const auto rows = static_cast<int32_t>(random.Between(1, 3));
    requests.push_back({static_cast<int32_t>(random.Between(0, 700)), rows,
                        random.Chance(0.2) ? rows - 1 : 0});
  }
  SparseCase sparse(shape, requests, random);
  SelectProgram program;
  program.scope = random.Among({Scope::kQHead, Scope::kKvHead});
  program.group =
      random.Among({Reduction::kMax, Reduction::kMean, Reduction::kSum});
  program.map = random.Among({HeadMap::kNone, HeadMap::kSoftmax});
  program.rule = random.Among({Rule::kTopK, Rule::kTokens});
  program.block_tokens = random.Among({2, 4, 8, 16});
  program.rows = {SummaryRows::Kind::kClusters, random.Among({32, 64, 128}),
                  program.block_tokens,
                  random.Chance(0.5) ? Dtype::kFloat32 : shape.dtype};
  program.index = {static_cast<int>(random.Between(1, 4)), random.Chance(0.5)};
  program.forced = {.sink_tokens = random.Among({0, 1, 40}),
                    .recent_tokens = random.Among({0, 7, 64}),
                    .inside_budget = random.Chance(0.5)};
  program.budget = random.Chance(0.3)
                       ? Amount{Amount::Unit::kShare, 0.25}
                       : Amount{Amount::Unit::kTokens,
                                random.Among({0.0, 30.0, 100.0, 500.0})};
  if (program.rule == Rule::kTopK) {
    program.estimate = random.Among({Amount{Amount::Unit::kTokens, 0},
                                     Amount{Amount::Unit::kTokens, 70},
                                     Amount{Amount::Unit::kTokens, 4000},
                                     Amount{Amount::Unit::kShare, 0.3}});
  }
  SelectProgram other;
  other.rows = {SummaryRows::Kind::kMean, 16, 16, Dtype::kFloat32};
  other.block_tokens = 16;
  other.budget = {Amount::Unit::kTokens, 64};
  sparse.programs = {other, program};
  for (const RequestRows& rows : requests) {
    sparse.selectors.push_back(random.Among({1, 1, 1, 1, 0, -1}));
    sparse.prompt_tokens.push_back(rows.first_position + rows.num_prefill_rows);
  }
  for (size_t r = 0; r < requests.size(); ++r) {
    if (random.Chance(0.3)) DrawFewKeys(sparse, r, random);
  }
  return sparse;
}

class ClusterConformanceTest : public SeededTest {
 protected:
  bool HasClusters() {
    const uint32_t features = Device(1).backend().attributes().select_features;
    return (features & static_cast<uint32_t>(SelectFeature::kClusters)) != 0;
  }

  // Runs the case; what it kept goes to `kept`.
  SparseResult Run(TestDevice& device, const SparseCase& sparse,
                   KeptClusters& kept, SparseRun run = {}) {
    run.on_summaries = [&](std::span<const LayerSelector> selectors,
                           const LayerCache&) {
      const HostSummaries host(device, selectors.back().summaries);
      kept = CollectClusters(sparse, host.table);
    };
    return RunSparse(device, sparse, run);
  }
};

// No cluster of `best` may be worse than one of `rest`, as far as float32 can
// tell.
void ExpectBetter(const std::vector<ClusterScore>& scores,
                  const std::vector<size_t>& best,
                  const std::vector<size_t>& rest, const char* what) {
  if (best.empty() || rest.empty()) return;
  const size_t worst = *std::ranges::min_element(
      best, {}, [&](size_t i) { return scores[i].high(); });
  const size_t other = *std::ranges::max_element(
      rest, {}, [&](size_t i) { return scores[i].low(); });
  EXPECT_GE(scores[worst].high(), scores[other].low())
      << what << ": cluster " << worst << " is in and not " << other;
}

// Which clusters are wholly read, in part, and not.
struct AttendClusters {
  std::vector<size_t> whole, part, none;
  int64_t num_tokens = 0;
};

AttendClusters Sort(const std::vector<KeptCluster>& clusters, size_t count,
                    const std::vector<bool>& tokens) {
  AttendClusters read;
  for (size_t i = 0; i < count; ++i) {
    const auto& of = clusters[i].tokens;
    if (of.empty()) continue;
    const auto is_read = [&](int64_t t) {
      return tokens[static_cast<size_t>(t)];
    };
    const int64_t num = std::ranges::count_if(of, is_read);
    // Of a cluster that is cut the first tokens.
    EXPECT_EQ(std::ranges::find_if_not(of, is_read) - of.begin(), num);
    (num == 0                ? read.none
     : num == std::ssize(of) ? read.whole
                             : read.part)
        .push_back(i);
    read.num_tokens += num;
  }
  return read;
}

// Of the budget, clusters or their tokens; and of the estimates, clusters.
void ExpectList(const ListOfRow& of, const std::vector<KeptCluster>& clusters,
                const std::vector<Pick>& picks,
                const std::vector<int32_t>& estimates) {
  const SelectProgram& program = of.sparse.programs.back();
  const int64_t segment = program.rows.tokens;
  const int64_t behind = of.context - 1 - program.forced.recent_tokens;
  const int64_t clustered = behind < 0 ? 0 : behind / segment * segment;
  const std::vector<bool> tokens = TokensOf(picks, of.context);
  const int64_t sinks = program.forced.sink_tokens;
  for (int64_t t = 0; t < of.context; ++t) {
    if (t >= sinks && t < clustered) continue;
    ASSERT_TRUE(tokens[static_cast<size_t>(t)]) << "token " << t;
  }
  const auto count = static_cast<size_t>(clustered / program.rows.stride);
  ASSERT_LE(count, clusters.size());
  const AttendClusters read = Sort(clusters, count, tokens);
  const std::vector<ClusterScore> scores = ScoreClusters(of, clusters, count);
  int64_t budget = program.budget.TokensOf(of.context);
  if (program.forced.inside_budget) budget -= std::min(sinks, of.context);
  budget = std::max<int64_t>(budget, 0);
  const auto num_filled =
      std::ssize(read.whole) + std::ssize(read.part) + std::ssize(read.none);
  if (program.rule == Rule::kTokens) {
    const int64_t most = clustered - std::min(sinks, clustered);
    ASSERT_EQ(read.num_tokens, std::min(budget, most));
    ASSERT_LE(read.part.size(), 1u);
    ExpectBetter(scores, read.whole, read.part, "whole");
    ExpectBetter(scores, read.part, read.none, "cut");
    ExpectBetter(scores, read.whole, read.none, "read");
    ASSERT_TRUE(estimates.empty());
    return;
  }
  const int64_t num_read =
      std::min(budget / program.block_tokens, static_cast<int64_t>(count));
  ASSERT_TRUE(read.part.empty());
  ASSERT_EQ(std::ssize(read.whole), std::min(num_read, num_filled));
  ExpectBetter(scores, read.whole, read.none, "read");
  int64_t wanted = program.estimate.TokensOf(of.context) / program.block_tokens;
  wanted = std::min(wanted, static_cast<int64_t>(count) - num_read);
  ASSERT_EQ(std::ssize(estimates),
            std::min(num_read + wanted, num_filled) - std::ssize(read.whole));
  ASSERT_TRUE(std::ranges::is_sorted(estimates));
  std::vector<size_t> next(estimates.begin(), estimates.end()), rest;
  for (const size_t i : read.none) {
    if (!std::ranges::binary_search(next, i)) rest.push_back(i);
  }
  ASSERT_EQ(next.size() + rest.size(), read.none.size());
  ExpectBetter(scores, next, rest, "estimated");
}

// f(list of a row, its picks, its estimates)
template <typename F>
void ForEachList(const SparseCase& sparse, const SparseResult& got, F&& f) {
  int64_t row = 0;
  for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
    const RequestRows& rows = sparse.paged.requests()[r];
    for (int32_t t = 0; t < rows.num_tokens; ++t, ++row) {
      const auto& lists = got.picks[static_cast<size_t>(row)];
      for (size_t list = 0; list < lists.size(); ++list) {
        const std::vector<int32_t> none;
        f(ListOfRow{sparse, r, row, int64_t{rows.first_position} + t + 1,
                    static_cast<int>(list), static_cast<int>(lists.size())},
          t, lists[list],
          got.estimates.empty()
              ? none
              : got.estimates[static_cast<size_t>(row)][list]);
      }
    }
  }
}

void ExpectAttention(const SparseCase& sparse, const SparseResult& got,
                     KeptClusters& kept) {
  Closeness close_out(got.out, sparse.paged.shape().dtype == Dtype::kBFloat16
                                   ? Arithmetic::kAttentionBf16
                                   : Arithmetic::kAttention);
  Closeness close_lse(got.lse, Arithmetic::kAttention);
  ForEachList(
      sparse, got,
      [&](const ListOfRow& of, int32_t, const std::vector<Pick>& picks,
          const std::vector<int32_t>& estimates) {
        const std::vector<bool> tokens = TokensOf(picks, of.context);
        for (int head = of.first_head(); head < of.end_head(); ++head) {
          const ExpectedRow expected = Attend(
              of, head,
              kept[{of.request, head / sparse.paged.shape().group_heads}],
              tokens, estimates);
          close_lse.Expect({of.row, head}, expected.lse,
                           1 + std::abs(expected.lse));
          for (size_t c = 0; c < expected.out.size(); ++c) {
            close_out.Expect({of.row, head, static_cast<int64_t>(c)},
                             expected.out[c], expected.magnitude[c]);
          }
        }
      });
}

void ExpectShares(const SparseCase& sparse, const SparseResult& got) {
  std::vector<double> shares(got.read_shares.values.size(), 0.25);
  ForEachList(sparse, got,
              [&](const ListOfRow& of, int32_t, const std::vector<Pick>& picks,
                  const std::vector<int32_t>&) {
                if (sparse.selectors[of.request] < 0) return;
                const auto num_read = static_cast<double>(
                    std::ranges::count(TokensOf(picks, of.context), true));
                shares[static_cast<size_t>(of.row)] +=
                    num_read / static_cast<double>(of.context * of.num_lists);
              });
  for (size_t row = 0; row < shares.size(); ++row) {
    EXPECT_NEAR(got.read_shares.values[row], shares[row], 1e-6);
  }
}

TEST_P(ClusterConformanceTest, ChoosesTheBestClustersAndReadsThem) {
  if (!HasClusters()) GTEST_SKIP() << "the device makes no clusters";
  int num_estimates = 0;
  ForSeeds(150, [&](RandomSource& random, int num_threads) {
    const SparseCase sparse = ClusterCase(random);
    TestDevice device = Device(num_threads);
    KeptClusters kept;
    const SparseResult got =
        Run(device, sparse, kept,
            {.select_rows = static_cast<int>(random.Between(1, 8))});
    ForEachList(
        sparse, got,
        [&](const ListOfRow& of, int32_t t, const std::vector<Pick>& picks,
            const std::vector<int32_t>& estimates) {
          num_estimates += static_cast<int>(estimates.size());
          if (sparse.ProgramOf(of.request, t) == &sparse.programs.back()) {
            ExpectList(of, kept[{of.request, of.kv_head()}], picks, estimates);
          } else {
            EXPECT_TRUE(estimates.empty());
          }
        });
    ExpectShares(sparse, got);
    ExpectAttention(sparse, got, kept);
  });
  EXPECT_GT(num_estimates, 0);
}

// One request over so many clusters that their scores do not fit a block's
// shared memory, and that estimates are several groups of units.
TEST_P(ClusterConformanceTest, ChoosesAmongVeryManyClusters) {
  if (!HasClusters()) GTEST_SKIP() << "the device makes no clusters";
  RandomSource random(1);
  KvShape shape;
  shape.group_heads = 2;
  for (const Rule rule : {Rule::kTopK, Rule::kTokens}) {
    SparseCase sparse(shape, {{25000, 1, 0}}, random);
    SelectProgram program;
    program.rule = rule;
    program.block_tokens = 1;
    program.rows = {SummaryRows::Kind::kClusters, 32, 1, Dtype::kFloat32};
    program.index = {1, false};
    program.forced.recent_tokens = 3;
    program.budget = {Amount::Unit::kTokens, 5000};
    if (rule == Rule::kTopK) {
      program.estimate = {Amount::Unit::kTokens, 12000};
    }
    sparse.programs = {program};
    sparse.selectors = {0};
    sparse.prompt_tokens = {0};
    TestDevice device = Device(2);
    KeptClusters kept;
    const SparseResult got = Run(device, sparse, kept);
    ForEachList(
        sparse, got,
        [&](const ListOfRow& of, int32_t, const std::vector<Pick>& picks,
            const std::vector<int32_t>& estimates) {
          ExpectList(of, kept[{0, of.kv_head()}], picks, estimates);
        });
    ExpectAttention(sparse, got, kept);
  }
}

// Where all keys are one, one cluster of a segment has all of its tokens, and
// all segments score alike: the first ones are read, and where tokens are cut
// their first tokens, in whatever bits the scores come.
TEST_P(ClusterConformanceTest, TiesGoToTheFirst) {
  if (!HasClusters()) GTEST_SKIP() << "the device makes no clusters";
  ForSeeds(20, [&](RandomSource& random, int num_threads) {
    KvShape shape;
    shape.group_heads = 2;
    SparseCase sparse(shape, {{1500, 1, 0}}, random);
    sparse.paged.RepeatFirstKey(0);
    SelectProgram program;
    program.rule = random.Among({Rule::kTopK, Rule::kTokens});
    program.map = random.Among({HeadMap::kNone, HeadMap::kSoftmax});
    program.block_tokens = 16;
    program.rows = {SummaryRows::Kind::kClusters, 64, 16, Dtype::kFloat32};
    program.index = {2, false};
    const bool by_tokens = program.rule == Rule::kTokens;
    const int64_t budget = random.Between(16, by_tokens ? 1000 : 300);
    program.budget = {Amount::Unit::kTokens, static_cast<double>(budget)};
    const int64_t num_estimated = by_tokens ? 0 : random.Between(0, 4);
    program.estimate = {Amount::Unit::kTokens,
                        static_cast<double>(16 * num_estimated)};
    sparse.programs = {program};
    sparse.selectors = {0};
    sparse.prompt_tokens = {0};
    TestDevice device = Device(num_threads);
    KeptClusters kept;
    const SparseResult got = Run(device, sparse, kept);
    const int64_t end = by_tokens ? budget : budget / 16 * 64;
    const std::vector<bool> tokens = TokensOf(got.picks[0][0], 1501);
    for (int64_t t = 0; t < 1472; ++t) {
      ASSERT_EQ(tokens[static_cast<size_t>(t)],
                t < std::min<int64_t>(end, 1472))
          << "token " << t << " budget " << budget;
    }
    if (num_estimated == 0) return;
    std::vector<int32_t> estimates;
    const auto& clusters = kept[{0, 0}];
    for (int64_t i = 0; i < 1472 / 16; ++i) {
      const int64_t rank = i / 4 - budget / 16;
      if (rank < 0 || rank >= num_estimated) continue;
      if (clusters[static_cast<size_t>(i)].tokens.empty()) continue;
      estimates.push_back(static_cast<int32_t>(i));
    }
    ASSERT_EQ(got.estimates[0][0], estimates);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, ClusterConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
