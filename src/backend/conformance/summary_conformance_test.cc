// The conformance suite, part eight: rows of float8 against float64, number by
// number. (Of other types the scores of select_conformance_test tell enough.)
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/conformance/host_summaries.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/sparse_case.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

// Keys of a request whose channels have sizes of their own, so that rows also
// hold numbers that are none beside the greatest.
void SpreadChannels(SparseCase& sparse, size_t request, RandomSource& random) {
  TestArray keys = sparse.paged.keys(request);
  TestArray values = sparse.paged.values(request);
  const auto k_dim = static_cast<size_t>(sparse.paged.shape().k_dim);
  std::vector<double> sizes(k_dim);
  for (double& size : sizes) {
    size = std::exp2(static_cast<double>(random.Between(-8, 4)));
  }
  for (size_t i = 0; i < keys.values.size(); ++i) {
    keys.values[i] *= sizes[i % k_dim];
  }
  sparse.paged.SetKeysAndValues(request, std::move(keys), std::move(values));
}

SparseCase Float8Case(RandomSource& random) {
  std::vector<RequestRows> requests;
  for (int64_t i = 0; i < random.Between(1, 2); ++i) {
    requests.push_back({static_cast<int32_t>(random.Between(60, 300)), 1, 0});
  }
  SparseCase sparse(RandomKvShape(random), requests, random);
  SelectProgram program;
  program.block_tokens = random.Among({8, 16, 32, 64});
  program.rows = {random.Among({Kind::kMean, Kind::kMinMax, Kind::kCuboid}),
                  program.block_tokens, program.block_tokens,
                  Dtype::kFloat8E4M3};
  program.budget = {Amount::Unit::kTokens, 64};
  sparse.programs = {program};
  sparse.selectors.assign(requests.size(), 0);
  sparse.prompt_tokens.assign(requests.size(), 0);
  for (size_t r = 0; r < requests.size(); ++r) {
    if (random.Chance(0.5)) SpreadChannels(sparse, r, random);
  }
  return sparse;
}

// The numbers of row j before they are rounded.
std::vector<double> NumbersOf(const SparseCase& sparse, size_t request,
                              int head, int64_t j) {
  const SummaryRows& rows = sparse.programs[0].rows;
  const int k_dim = sparse.paged.shape().k_dim;
  std::vector<double> low, high;
  for (int c = 0; c < k_dim; ++c) {
    double sum = 0, least = INFINITY, greatest = -INFINITY, distance = 0;
    const auto key = [&](int t) {
      return sparse.paged.keys(request).at(j * rows.stride + t, head, c);
    };
    for (int t = 0; t < rows.tokens; ++t) {
      sum += key(t);
      least = std::min(least, key(t));
      greatest = std::max(greatest, key(t));
    }
    const double centre = (least + greatest) / 2;
    for (int t = 0; t < rows.tokens; ++t) distance += std::abs(key(t) - centre);
    distance /= rows.tokens;
    const bool is_box = rows.kind == Kind::kCuboid;
    low.push_back(rows.kind == Kind::kMean ? sum / rows.tokens
                  : is_box                 ? centre - distance
                                           : least);
    high.push_back(is_box ? centre + distance : greatest);
  }
  if (rows.kind != Kind::kMean) low.insert(low.end(), high.begin(), high.end());
  return low;
}

// From one number of E4M3 to the next, of the size of x.
double StepAt(double x) {
  const double exponent = x == 0 ? -6 : std::floor(std::log2(std::abs(x)));
  return std::exp2(std::max(exponent, -6.0) - 3);
}

void ExpectRow(Kind kind, const std::vector<double>& numbers,
               const std::byte* row) {
  const auto width = static_cast<int>(numbers.size());
  float scale = 0;
  std::memcpy(&scale, row + Float8RowBytes(width) - sizeof(scale),
              sizeof(scale));
  double greatest = 0;
  for (const double x : numbers) greatest = std::max(greatest, std::abs(x));
  // Sums may lie on the other side of 448 in float32.
  constexpr double kSlack = 1e-5;
  const bool exact = kind == Kind::kMinMax;
  ASSERT_LE(greatest, 448.0 * scale * (exact ? 1 : 1 + kSlack));
  ASSERT_GT(greatest, 224.0 * scale * (exact ? 1 : 1 - kSlack));
  for (int c = 0; c < width; ++c) {
    Float8E4M3 number;
    number.bits = std::to_integer<uint8_t>(row[c]);
    const double got = static_cast<float>(number);
    const double x = numbers[static_cast<size_t>(c)] / scale;
    SCOPED_TRACE(testing::Message() << "number " << c << ": " << x);
    if (!exact) {
      ASSERT_NEAR(got, x, StepAt(x) * (0.5 + 1e-3));
    } else if (c < width / 2) {
      ASSERT_LE(got, x);
      ASSERT_GT(got, x - StepAt(x));
    } else {
      ASSERT_GE(got, x);
      ASSERT_LT(got, x + StepAt(x));
    }
  }
}

class SummaryConformanceTest : public SeededTest {};

TEST_P(SummaryConformanceTest, Float8RowsAreTheirNumbersRoundedOnce) {
  const uint32_t features = Device(1).backend().attributes().select_features;
  if ((features & static_cast<uint32_t>(SelectFeature::kFloat8Rows)) == 0) {
    GTEST_SKIP() << "the device keeps no summaries in float8";
  }
  ForSeeds(60, [this](RandomSource& random, int num_threads) {
    const SparseCase sparse = Float8Case(random);
    const SummaryRows& rows = sparse.programs[0].rows;
    TestDevice device = Device(num_threads);
    SparseRun run;
    run.summarize_tokens = static_cast<int>(random.Between(1, 300));
    run.on_summaries = [&](std::span<const LayerSelector> selectors,
                           const LayerCache& cache) {
      const HostSummaries kept(device, selectors[0].summaries);
      for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
        const int64_t context = sparse.paged.requests()[r].end_position();
        for (int64_t i = 0;
             i < NumVisibleRows(rows, context) * cache.num_kv_heads; ++i) {
          const auto head = static_cast<int>(i % cache.num_kv_heads);
          const int64_t j = i / cache.num_kv_heads;
          SCOPED_TRACE(testing::Message()
                       << "kind " << static_cast<int>(rows.kind) << " request "
                       << r << " head " << head << " row " << j);
          ExpectRow(rows.kind, NumbersOf(sparse, r, head, j),
                    kept.table.Row(static_cast<int>(r), head, 0, j));
          if (HasFailure()) return;
        }
      }
    };
    RunSparse(device, sparse, run);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, SummaryConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
