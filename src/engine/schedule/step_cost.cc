#include "engine/schedule/step_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

// Of several that explain as well, the first does.
enum Term : uint8_t {
  kRow,
  kSingleRow,
  kRead,
  kSingleRead,
  kStep,
  kChunk,
  kNumTerms
};
using Terms = std::array<double, kNumTerms>;

Terms TermsOf(const StepWork& work) {
  Terms terms = {};
  terms[kRow] = work.rows;
  terms[kSingleRow] = work.single_rows;
  terms[kRead] = work.reads;
  terms[kSingleRead] = work.single_reads;
  terms[kStep] = 1;
  terms[kChunk] = work.rows > 0 ? 1 : 0;
  return terms;
}

// The normal equations of a line through points, by relative errors.
struct Equations {
  std::array<Terms, kNumTerms> products = {};
  Terms right = {};
  double squares = 0;  // of what is to be explained

  void Add(const StepWork& work, double ms, double weight) {
    const Terms terms = TermsOf(work);
    const double square = weight * weight / (ms * ms);
    for (size_t i = 0; i < kNumTerms; ++i) {
      right[i] += square * ms * terms[i];
      for (size_t j = 0; j < kNumTerms; ++j) {
        products[i][j] += square * terms[i] * terms[j];
      }
    }
    squares += weight * weight;
  }
};

// Those of the terms in `mask`, by elimination; nothing where they cannot be
// told apart, or one would be negative.
std::optional<Terms> Solve(const Equations& equations, unsigned mask) {
  constexpr double kLeastPivot = 1e-9;
  std::array<Terms, kNumTerms> a = equations.products;
  Terms b = equations.right;
  std::array<size_t, kNumTerms> kept;
  size_t num_kept = 0;
  for (size_t i = 0; i < kNumTerms; ++i) {
    if ((mask >> i & 1) != 0) kept[num_kept++] = i;
  }
  const std::span<const size_t> used = std::span(kept).first(num_kept);
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

// Of the squares, what a solution leaves unexplained.
double Left(const Equations& equations, const Terms& solution) {
  double left = equations.squares;
  for (size_t i = 0; i < kNumTerms; ++i) {
    left -= equations.right[i] * solution[i];
  }
  return std::max(left, 0.0);
}

// Sets of terms as bits: few before many.
constexpr auto kMasks = [] {
  std::array<unsigned, (1u << kNumTerms) - 1> masks = {};
  std::iota(masks.begin(), masks.end(), 1u);
  std::ranges::sort(masks, {}, [](unsigned mask) {
    return std::pair(std::popcount(mask), mask);
  });
  return masks;
}();

Terms LineOf(const Equations& equations) {
  constexpr double kClearly = 0.9, kNothing = 1e-12;
  unsigned seen = 0;
  for (size_t i = 0; i < kNumTerms; ++i) {
    if (equations.products[i][i] > 0) seen |= 1u << i;
  }
  Terms best = {};
  double least = std::numeric_limits<double>::infinity();
  for (const unsigned mask : kMasks) {
    if ((mask & ~seen) != 0) continue;
    const std::optional<Terms> solution = Solve(equations, mask);
    if (!solution) continue;
    const double left = Left(equations, *solution);
    if (left >= kClearly * least - kNothing * equations.squares) continue;
    least = left;
    best = *solution;
  }
  return best;
}

int PowerOf(double amount) {
  return amount < 1 ? -1 : static_cast<int>(std::floor(std::log2(amount)));
}

}  // namespace

bool StepWork::IsWithin(const StepWork& other) const {
  return rows <= other.rows && reads <= other.reads &&
         single_rows <= other.single_rows && single_reads <= other.single_reads;
}

StepWork& StepWork::operator+=(const StepWork& other) {
  rows += other.rows;
  reads += other.reads;
  single_rows += other.single_rows;
  single_reads += other.single_reads;
  return *this;
}

StepWork WorkOf(const StepItem& item, int num_layers) {
  const double share = static_cast<double>(item.end_layer - item.first_layer) /
                       static_cast<double>(num_layers);
  const double rows = share * item.num_tokens;
  const double reads = rows * (item.first_token + (item.num_tokens + 1) / 2.0);
  if (item.num_tokens == 1) return {.single_rows = rows, .single_reads = reads};
  return {.rows = rows, .reads = reads};
}

StepWork WorkOf(const StepPlan& plan, int num_layers) {
  StepWork work;
  for (const StepItem& item : plan.items) work += WorkOf(item, num_layers);
  return work;
}

double StepCost::MsOf(const StepWork& work) const {
  return step_ms + (work.rows > 0 ? chunk_ms : 0) + row_ms * work.rows +
         read_ms * work.reads + single_row_ms * work.single_rows +
         single_read_ms * work.single_reads;
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
  CHECK(work.rows + work.single_rows > 0 && ms > 0,
        "rows={} single_rows={} ms={}", work.rows, work.single_rows, ms);
  Widen(work, ms);
  auto& [sizes, num_added] = work.rows > 0 ? chunks_ : singles_;
  Size& size = sizes[{PowerOf(work.rows), PowerOf(work.reads),
                      PowerOf(work.single_rows), PowerOf(work.single_reads)}];
  size.samples[size.num_added++ % kNumKept] = {.work = work, .ms = ms};
  size.last_added = ++num_added;
  if (sizes.size() > kMaxSizes) {
    sizes.erase(std::ranges::min_element(
        sizes, {}, [](const auto& each) { return each.second.last_added; }));
  }
  Fit();
}

void StepCostFit::Widen(const StepWork& work, double ms) {
  const double foretold = cost_.MsOf(work);
  if (work.rows == 0 || work.single_rows == 0 || !cost_.Covers(work) ||
      foretold <= 0) {
    return;
  }
  const bool is_over = ms > cost_.margin * foretold;
  const double step = (is_over ? 1 : 0) - kOverShare;
  // One more step than the greatest ratio asks for, so that none is cut short.
  const double most = kMaxRatio * std::exp(kMarginRate);
  cost_.margin =
      std::clamp(cost_.margin * std::exp(kMarginRate * step), 1.0, most);
}

void StepCostFit::Fit() {
  // A machine is a line only near where it works: what was seen lately counts
  // for most, and the rest for as much as tells where it is not.
  constexpr double kLeastWeight = 1.0 / 8, kHalvedEvery = 8;
  Equations equations;
  StepWork most;
  for (const Kind* kind : {&chunks_, &singles_}) {
    for (const auto& [powers, size] : kind->sizes) {
      const Sample sample = size.Median();
      most.rows = std::max(most.rows, sample.work.rows);
      most.reads = std::max(most.reads, sample.work.reads);
      const auto age = static_cast<double>(kind->num_added - size.last_added);
      equations.Add(sample.work, sample.ms,
                    std::max(kLeastWeight, std::exp2(-age / kHalvedEvery)));
    }
  }
  const Terms line = LineOf(equations);
  cost_ = {.step_ms = line[kStep],
           .chunk_ms = line[kChunk],
           .row_ms = line[kRow],
           .read_ms = line[kRead],
           .single_row_ms = line[kSingleRow],
           .single_read_ms = line[kSingleRead],
           .margin = cost_.margin,
           .most = most};
}

void BoundedSteps::Add(const StepWork& work, bool is_over) {
  CHECK(work.single_rows > 0, "rows={}", work.rows);
  Count& count = work.rows > 0 ? with_chunks : without_chunks;
  ++count.num_steps;
  count.num_over += is_over ? 1 : 0;
}

}  // namespace winnow
