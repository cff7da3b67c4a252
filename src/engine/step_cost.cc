#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"

namespace winnow {
namespace {

constexpr int kNumTerms = 3;  // of a step, its rows, its reads
using Terms = std::array<double, kNumTerms>;

// The normal equations of a line through points, by relative errors.
struct Equations {
  std::array<Terms, kNumTerms> products = {};
  Terms right = {};
};

// Those of the terms in `mask`, by elimination; nothing where they cannot be
// told apart, or one would be negative.
std::optional<Terms> Solve(const Equations& equations, unsigned mask) {
  constexpr double kLeastPivot = 1e-9;
  std::array<Terms, kNumTerms> a = equations.products;
  Terms b = equations.right;
  std::vector<size_t> used;
  for (size_t i = 0; i < kNumTerms; ++i) {
    if ((mask >> i & 1) != 0) used.push_back(i);
  }
  for (const size_t i : used) {
    if (a[i][i] <= kLeastPivot * equations.products[i][i]) return std::nullopt;
    for (const size_t row : used) {
      if (row <= i) continue;
      const double factor = a[row][i] / a[i][i];
      for (const size_t column : used) a[row][column] -= factor * a[i][column];
      b[row] -= factor * b[i];
    }
  }
  Terms solution = {};
  for (auto i = used.rbegin(); i != used.rend(); ++i) {
    double rest = b[*i];
    for (const size_t column : used) {
      if (column > *i) rest -= a[*i][column] * solution[column];
    }
    solution[*i] = rest / a[*i][*i];
    if (solution[*i] < 0) return std::nullopt;
  }
  return solution;
}

// Less what all solutions have alike: b'x explains so much of the squares.
double Explained(const Equations& equations, const Terms& solution) {
  double sum = 0;
  for (size_t i = 0; i < kNumTerms; ++i) {
    sum += equations.right[i] * solution[i];
  }
  return sum;
}

int PowerOf(double amount) {
  return amount < 1 ? -1 : static_cast<int>(std::floor(std::log2(amount)));
}

}  // namespace

StepWork& StepWork::operator+=(const StepWork& other) {
  rows += other.rows;
  reads += other.reads;
  return *this;
}

StepWork WorkOf(const StepItem& item, int num_layers) {
  const double share = static_cast<double>(item.end_layer - item.first_layer) /
                       static_cast<double>(num_layers);
  const double rows = item.num_tokens;
  return {.rows = share * rows,
          .reads = share * rows * (item.first_token + (rows + 1) / 2)};
}

StepWork WorkOf(const StepPlan& plan, int num_layers) {
  StepWork work;
  for (const StepItem& item : plan.items) work += WorkOf(item, num_layers);
  return work;
}

double StepCost::MsOf(const StepWork& work) const {
  return step_ms + row_ms * work.rows + read_ms * work.reads;
}

bool StepCost::Covers(const StepWork& work) const {
  return work.rows <= 2 * most.rows && work.reads <= 4 * most.reads;
}

StepCostFit::Sample StepCostFit::Size::Median() const {
  std::array<Sample, kNumKept> kept = samples;
  const auto end =
      kept.begin() + static_cast<std::ptrdiff_t>(std::min(num_added, kNumKept));
  const auto middle = kept.begin() + (end - kept.begin() - 1) / 2;
  std::nth_element(kept.begin(), middle, end,
                   [](const auto& a, const auto& b) { return a.ms < b.ms; });
  return *middle;
}

void StepCostFit::Add(const StepWork& work, double ms) {
  CHECK(work.rows > 0 && ms > 0, "rows={} ms={}", work.rows, ms);
  Size& size = sizes_[{PowerOf(work.rows), PowerOf(work.reads)}];
  size.samples[size.num_added++ % kNumKept] = {.work = work, .ms = ms};
  size.last_added = ++num_added_;
  if (sizes_.size() > kMaxSizes) {
    sizes_.erase(std::ranges::min_element(
        sizes_, {}, [](const auto& each) { return each.second.last_added; }));
  }
  Fit();
}

void StepCostFit::Fit() {
  Equations equations;
  StepWork most;
  for (const auto& [powers, size] : sizes_) {
    const Sample sample = size.Median();
    most.rows = std::max(most.rows, sample.work.rows);
    most.reads = std::max(most.reads, sample.work.reads);
    // A machine is a line only near where it works: what was seen lately counts
    // for most, and the rest for as much as tells where it is not.
    constexpr double kLeastWeight = 1.0 / 64, kHalvedEvery = 8;
    const auto age = static_cast<double>(num_added_ - size.last_added);
    const double weight =
        std::max(kLeastWeight, std::exp2(-age / kHalvedEvery)) / sample.ms;
    const Terms terms = {weight, weight * sample.work.rows,
                         weight * sample.work.reads};
    for (size_t i = 0; i < kNumTerms; ++i) {
      equations.right[i] += weight * sample.ms * terms[i];
      for (size_t j = 0; j < kNumTerms; ++j) {
        equations.products[i][j] += terms[i] * terms[j];
      }
    }
  }
  // Where one term explains it as well as another, rows do: what is foretold of
  // larger steps is then no less than they take.
  constexpr unsigned kMasks[] = {0b010, 0b100, 0b001, 0b110,
                                 0b011, 0b101, 0b111};
  constexpr double kClearly = 1e-6;
  double best = -1;
  for (const unsigned mask : kMasks) {
    const std::optional<Terms> solution = Solve(equations, mask);
    if (!solution) continue;
    const double explained = Explained(equations, *solution);
    if (best >= 0 && explained <= best * (1 + kClearly)) continue;
    best = explained;
    cost_ = {.step_ms = (*solution)[0],
             .row_ms = (*solution)[1],
             .read_ms = (*solution)[2]};
  }
  cost_.most = most;
}

}  // namespace winnow
