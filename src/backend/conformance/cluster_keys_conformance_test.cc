// The conformance suite, part five: ClusterKeys against k-means in float64,
// written from the comment of ClusterIndex.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/conformance/host_summaries.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/sparse_case.h"
#include "backend/contract/cluster_segment.h"

namespace winnow {
namespace {

using Vector = std::vector<double>;  // [k_dim]

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

Vector Normalized(Vector x) {
  const double length = std::sqrt(Dot(x, x));
  for (double& number : x) number /= length;
  return x;
}

// One segment's keys, sinks left out, and what k-means makes of them.
struct Reference {
  std::vector<Vector> keys;
  std::vector<Vector> centroids;
  std::vector<size_t> cluster;  // by key
  // How near a key's best centroid was to its second: whether float32 may find
  // another.
  double least_margin = 1e9;

  void Assign() {
    for (size_t t = 0; t < keys.size(); ++t) {
      double best = -1e9, second = -1e9;
      for (size_t i = 0; i < centroids.size(); ++i) {
        const double score = Dot(keys[t], centroids[i]);
        if (score > best) {
          second = best;
          best = score;
          cluster[t] = i;
        } else {
          second = std::max(second, score);
        }
      }
      // Equal centroids are so in float32 too: the lowest is taken.
      if (second < best) least_margin = std::min(least_margin, best - second);
    }
  }

  void CopyPagePrefixes() {
    std::vector<Vector> sums(centroids.size(), Vector(keys[0].size(), 0.0));
    std::vector<int> sizes(centroids.size(), 0);
    for (size_t t = 0; t < keys.size(); ++t) {
      ++sizes[cluster[t]];
      for (size_t c = 0; c < keys[t].size(); ++c) {
        sums[cluster[t]][c] += keys[t][c];
      }
    }
    for (size_t i = 0; i < centroids.size(); ++i) {
      if (sizes[i] > 0) centroids[i] = Normalized(sums[i]);
    }
  }

  void Run(const SelectProgram& program) {
    cluster.assign(keys.size(), 0);
    if (keys.empty()) return;
    if (program.index.centered) {
      Vector mean(keys[0].size(), 0.0);
      for (const Vector& key : keys) {
        for (size_t c = 0; c < mean.size(); ++c) mean[c] += key[c];
      }
      for (Vector& key : keys) {
        for (size_t c = 0; c < mean.size(); ++c) {
          key[c] -= mean[c] / static_cast<double>(keys.size());
        }
      }
    }
    const size_t count =
        static_cast<size_t>(program.rows.tokens / program.rows.stride);
    for (size_t i = 0; i < count; ++i) {
      const double place = (static_cast<double>(i) + 0.5) *
                           static_cast<double>(keys.size()) /
                           static_cast<double>(count);
      centroids.push_back(Normalized(keys[static_cast<size_t>(place)]));
    }
    for (int i = 0; i < program.index.iterations; ++i) {
      Assign();
      CopyPagePrefixes();
    }
    Assign();
  }
};

// A case whose program has clusters, and one segment at least.
SparseCase ClusterKeysCase(RandomSource& random) {
  KvShape shape = RandomKvShape(random);
  shape.k_dim = shape.v_dim = random.Among({16, 24, 32});
  std::vector<RequestRows> requests;
  for (int64_t i = 0; i < random.Between(1, 3); ++i) {
    requests.push_back({static_cast<int32_t>(random.Between(40, 500)), 1, 0});
  }
  SparseCase sparse(shape, requests, random);
  SelectProgram program;
  program.block_tokens = random.Among({4, 8, 16});
  program.rows = {SummaryRows::Kind::kClusters,
                  random.Among({32, 64, 128, 256}), program.block_tokens,
                  random.Chance(0.5) ? Dtype::kFloat32 : shape.dtype};
  program.index = {static_cast<int>(random.Between(1, 6)), random.Chance(0.5)};
  program.forced.sink_tokens = random.Among({0, 3, 33});
  program.estimate = {Amount::Unit::kTokens, 64};
  sparse.programs = {program};
  sparse.selectors.assign(requests.size(), 0);
  sparse.prompt_tokens.assign(requests.size(), 0);
  return sparse;
}

class ClusterKeysConformanceTest : public SeededTest {
 protected:
  bool HasClusters() {
    const uint32_t features = Device(1).backend().attributes().select_features;
    return (features & static_cast<uint32_t>(SelectFeature::kClusters)) != 0;
  }

  // Compares one segment of a request and KV head; returns whether float32
  // could find no other clusters.
  static bool ExpectSegment(const SparseCase& sparse, size_t request, int head,
                            const SummaryTable& table, int64_t number) {
    const SelectProgram& program = sparse.programs[0];
    const KvShape& shape = sparse.paged.shape();
    const ClusterSegment segment = ClusterSegmentOf(
        table, program.rows, static_cast<int>(request), head, number);
    Reference reference;
    const int64_t first =
        std::clamp<int64_t>(program.forced.sink_tokens, segment.first_token,
                            segment.first_token + program.rows.tokens);
    for (int64_t t = first; t < segment.first_token + program.rows.tokens;
         ++t) {
      Vector& key = reference.keys.emplace_back();
      for (int c = 0; c < shape.k_dim; ++c) {
        key.push_back(sparse.paged.keys(request).at(t, head, c));
      }
    }
    reference.Run(program);
    if (reference.least_margin < 1e-4) return false;
    for (int i = 0; i < segment.num_clusters; ++i) {
      std::vector<uint16_t> expected;
      for (size_t t = 0; t < reference.keys.size(); ++t) {
        if (reference.cluster[t] != static_cast<size_t>(i)) continue;
        expected.push_back(static_cast<uint16_t>(first - segment.first_token +
                                                 static_cast<int64_t>(t)));
      }
      const auto tokens = segment.TokensOf(i);
      EXPECT_EQ(std::vector<uint16_t>(tokens.begin(), tokens.end()), expected)
          << "cluster " << i;
      ExpectMeans(sparse, request, head, table, segment, i);
    }
    return true;
  }

  // The mean key and value of a cluster, as they are kept.
  static void ExpectMeans(const SparseCase& sparse, size_t request, int head,
                          const SummaryTable& table,
                          const ClusterSegment& segment, int cluster) {
    const SummaryRows& rows = sparse.programs[0].rows;
    const KvShape& shape = sparse.paged.shape();
    const int bytes = DtypeBytes(rows.dtype);
    const int64_t row = segment.first_row + cluster;
    const int r = static_cast<int>(request);
    const std::byte* key = table.Row(r, head, 0, row);
    const std::byte* value =
        ClusterValue(table, r, head, row, int64_t{shape.v_dim} * bytes);
    const auto tokens = segment.TokensOf(cluster);
    if (tokens.empty()) return;
    for (int c = 0; c < shape.k_dim; ++c) {
      double of_key = 0, of_value = 0;
      for (const uint16_t t : tokens) {
        const int64_t token = segment.first_token + t;
        of_key += sparse.paged.keys(request).at(token, head, c);
        of_value += sparse.paged.values(request).at(token, head, c);
      }
      const auto size = static_cast<double>(tokens.size());
      const double step = rows.dtype == Dtype::kFloat32 ? 1e-5 : 1.0 / 128;
      const auto near = [&](const std::byte* kept, double mean) {
        EXPECT_NEAR(LoadElement(rows.dtype, kept + c * bytes), mean,
                    step * (0.1 + std::abs(mean)));
      };
      near(key, of_key / size);
      near(value, of_value / size);
    }
  }
};

TEST_P(ClusterKeysConformanceTest, MakesTheClustersThatItSays) {
  if (!HasClusters()) GTEST_SKIP() << "the device makes no clusters";
  int num_sharp = 0, num_segments = 0;
  ForSeeds(40, [&](RandomSource& random, int num_threads) {
    const SparseCase sparse = ClusterKeysCase(random);
    TestDevice device = Device(num_threads);
    SparseRun run;
    run.summarize_tokens = static_cast<int>(random.Between(1, 300));
    run.on_summaries = [&](std::span<const LayerSelector> selectors,
                           const LayerCache& cache) {
      const HostSummaries kept(device, selectors[0].summaries);
      for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
        const int64_t end = sparse.paged.requests()[r].end_position() /
                            sparse.programs[0].rows.tokens;
        for (int64_t i = 0; i < end * cache.num_kv_heads; ++i) {
          ++num_segments;
          num_sharp +=
              ExpectSegment(sparse, r, static_cast<int>(i % cache.num_kv_heads),
                            kept.table, i / cache.num_kv_heads);
        }
      }
    };
    RunSparse(device, sparse, run);
  });
  EXPECT_GT(num_sharp, num_segments / 4);
}

// Of a case, dense and with every cluster estimated: out and lse.
struct BothReads {
  SparseResult dense, estimated;
};

BothReads EstimateAll(TestDevice& device, SparseCase sparse) {
  SelectProgram& program = sparse.programs[0];
  program.forced.sink_tokens = 0;
  program.budget = {Amount::Unit::kTokens, 0};
  program.estimate = {Amount::Unit::kShare, 1};
  return {.dense = RunSparse(device, sparse, {.read_all_pages = true}),
          .estimated = RunSparse(device, sparse)};
}

// A cluster of one key is that key: all are, where there are as many centroids
// as keys, each of which begins as one.
TEST_P(ClusterKeysConformanceTest, EstimatesOfSingleKeysAreDense) {
  if (!HasClusters()) GTEST_SKIP() << "the device makes no clusters";
  ForSeeds(20, [this](RandomSource& random, int num_threads) {
    SparseCase sparse = ClusterKeysCase(random);
    sparse.programs[0].block_tokens = sparse.programs[0].rows.stride = 1;
    sparse.programs[0].rows.dtype = sparse.paged.shape().dtype;
    sparse.programs[0].index.centered = false;
    TestDevice device = Device(num_threads);
    const auto [dense, estimated] = EstimateAll(device, sparse);
    const bool exact = sparse.paged.shape().dtype == Dtype::kFloat32;
    for (size_t i = 0; i < dense.lse.values.size(); ++i) {
      ASSERT_NEAR(estimated.lse.values[i], dense.lse.values[i], 1e-4);
    }
    for (size_t i = 0; i < dense.out.values.size(); ++i) {
      ASSERT_NEAR(estimated.out.values[i], dense.out.values[i],
                  exact ? 1e-4 : 4e-2);
    }
  });
}

// By Jensen's inequality: exp of a mean is at most the mean of the exps.
TEST_P(ClusterKeysConformanceTest, EstimatesWeighNoMoreThanTheirKeys) {
  if (!HasClusters()) GTEST_SKIP() << "the device makes no clusters";
  int num_below = 0;
  ForSeeds(20, [&](RandomSource& random, int num_threads) {
    SparseCase sparse = ClusterKeysCase(random);
    sparse.programs[0].rows.dtype = Dtype::kFloat32;
    TestDevice device = Device(num_threads);
    const auto [dense, estimated] = EstimateAll(device, sparse);
    for (size_t i = 0; i < dense.lse.values.size(); ++i) {
      ASSERT_LE(estimated.lse.values[i], dense.lse.values[i] + 1e-4);
      num_below += estimated.lse.values[i] < dense.lse.values[i] - 1e-4;
    }
  });
  EXPECT_GT(num_below, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, ClusterKeysConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
