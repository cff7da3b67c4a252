// The conformance suite, part six: MergeStates against float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/conformance/seeded_test.h"
#include "backend/conformance/sparse_case.h"

namespace winnow {
namespace {

// One row of `got` is that of the parts, whose first has a key.
void ExpectMerged(const std::vector<TestArray>& outs,
                  const std::vector<TestArray>& lses, const TestArray& got,
                  int64_t row) {
  const double step = got.dtype == Dtype::kFloat32 ? 1e-5 : 1.0 / 128;
  for (int64_t head = 0; head < got.dim(1); ++head) {
    for (int64_t c = 0; c < got.dim(2); ++c) {
      double sum = 0, value = 0;
      for (size_t i = 0; i < outs.size(); ++i) {
        const double weight =
            std::exp(lses[i].at(row, head) - lses[0].at(row, head));
        sum += weight;
        if (weight > 0) value += weight * outs[i].at(row, head, c);
      }
      if (sum == 1) {
        ASSERT_EQ(got.at(row, head, c),
                  RoundTo(got.dtype, outs[0].at(row, head, c)));
      } else {
        ASSERT_NEAR(got.at(row, head, c), value / sum,
                    step * (1 + std::abs(value / sum)));
      }
    }
  }
}

class MergeStatesConformanceTest : public SeededTest {};

// Parts by their lse, those without a key left out; a part alone to the bit;
// rows outside of the run, and of a kind that is switched off, left alone.
TEST_P(MergeStatesConformanceTest, MergesPartsByTheirLse) {
  const uint32_t features = Device(1).backend().attributes().select_features;
  if ((features & static_cast<uint32_t>(SelectFeature::kClusters)) == 0) {
    GTEST_SKIP() << "the device merges no parts";
  }
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  ForSeeds(40, [&](RandomSource& random, int num_threads) {
    const KvShape shape = RandomKvShape(random);
    const SparseCase sparse(shape, RandomRequests(random, 50), random);
    const int64_t rows = sparse.q.dim(0), heads = sparse.q.dim(1);
    TestDevice device = Device(num_threads);
    LayerStep step = sparse.paged.Step(device, sparse.paged.requests(), 0);
    step.has_prefill_rows = random.Chance(0.5);
    std::vector<TestArray> outs, lses;
    std::vector<View> out_views, lse_views;
    for (int64_t i = 0; i < random.Between(1, 3); ++i) {
      outs.push_back(
          RandomArray(Dtype::kFloat32, {rows, heads, shape.v_dim}, random));
      lses.push_back(RandomArray(Dtype::kFloat32, {rows, heads}, random));
      for (double& lse : lses.back().values) {
        lse = i > 0 && random.Chance(0.3) ? kNone
                                          : RoundTo(Dtype::kFloat32, 10 * lse);
      }
      out_views.push_back(device.Upload(outs.back()));
      lse_views.push_back(device.Upload(lses.back()));
    }
    const int first = static_cast<int>(random.Between(0, rows));
    const int count = static_cast<int>(random.Between(0, rows - first));
    const View out = device.Output(shape.dtype, {rows, heads, shape.v_dim});
    device.backend().MergeStates(device.queue(), step,
                                 {.outs = out_views,
                                  .lses = lse_views,
                                  .first_row = first,
                                  .num_rows = count,
                                  .out = out});
    const TestArray got = device.Download(out);
    int64_t row = 0;
    for (const RequestRows& request : sparse.paged.requests()) {
      for (int t = 0; t < request.num_tokens; ++t, ++row) {
        const bool merged =
            row >= first && row < first + count &&
            (t >= request.num_prefill_rows || step.has_prefill_rows);
        if (merged) {
          ExpectMerged(outs, lses, got, row);
        } else {
          ASSERT_TRUE(std::isnan(got.at(row, 0, 0))) << "row " << row;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, MergeStatesConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
