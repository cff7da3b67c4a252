#include "tests/oracle/expect_case.h"

#include <gtest/gtest.h>

#include <cmath>

namespace winnow {
namespace {

// How far a weighted sum of outputs may be off: elements within 1e-5 in
// float32, and 2e-2 with errors of any sign where 16 bits are read and written
// (E 1). `weights` are those of the sum.
double Tolerance(Dtype dtype, const std::vector<double>& weights) {
  double sum = 0, squares = 0;
  for (const double weight : weights) {
    sum += std::abs(weight);
    squares += weight * weight;
  }
  return dtype == Dtype::kFloat32 ? 1e-5 * sum : 2e-2 * std::sqrt(squares);
}

// The two sums over a row's outputs that the fixtures hold.
double WeightOf(int sum, int64_t head, int64_t c) {
  return static_cast<double>(sum == 0 ? (7 * head + 3 * c) % 5 - 2
                                      : (head + 2 * c) % 7 - 3);
}

void ExpectOutputs(const OracleCase& oracle, const OracleProbe& probe,
                   const SparseResult& got, int64_t row) {
  const int64_t num_heads = got.out.dim(1), dim = got.out.dim(2);
  for (int sum = 0; sum < 2; ++sum) {
    std::vector<double> weights;
    double value = 0;
    for (int64_t head = 0; head < num_heads; ++head) {
      for (int64_t c = 0; c < dim; ++c) {
        weights.push_back(WeightOf(sum, head, c));
        value += weights.back() * got.out.at(row, head, c);
      }
    }
    EXPECT_NEAR(value, probe.out[sum], Tolerance(oracle.shape.dtype, weights))
        << "sum " << sum << " of row " << probe.row;
  }
  double lse = 0;
  for (int64_t head = 0; head < num_heads; ++head) lse += got.lse.at(row, head);
  EXPECT_NEAR(lse, probe.lse,
              1e-5 * static_cast<double>(num_heads) * (1 + std::abs(probe.lse)))
      << "row " << probe.row;
}

}  // namespace

void ExpectCase(const OracleCase& oracle, const SparseResult& got,
                int64_t first_row) {
  SCOPED_TRACE(oracle.name + ": " + oracle.spec);
  std::vector<std::string> texts;
  std::string all;
  for (int i = 0; i < oracle.rows.num_tokens; ++i) {
    const auto row = static_cast<size_t>(first_row + i);
    texts.push_back(
        TextOf(got.picks[row], oracle.block, oracle.rows.first_position + i + 1,
               got.estimates.empty() ? std::vector<std::vector<int32_t>>()
                                     : got.estimates[row]));
    all += (i == 0 ? "" : "\n") + texts.back();
  }
  for (const OracleProbe& probe : oracle.probes) {
    const std::string& text = texts[static_cast<size_t>(probe.row)];
    EXPECT_EQ(probe.picks.starts_with('#') ? Hashed(text) : text, probe.picks)
        << "row " << probe.row << " reads " << text;
    ExpectOutputs(oracle, probe, got, first_row + probe.row);
  }
  EXPECT_EQ(Hashed(all), oracle.picks)
      << "a row differs; make_fixtures.py --show " << oracle.name
      << " prints the oracle's, ours are\n"
      << (all.size() < 4000 ? all : "too many");
}

}  // namespace winnow
