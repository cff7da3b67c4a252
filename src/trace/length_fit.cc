#include "trace/length_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace winnow {
namespace {

struct Point {
  double x = 0, y = 0;
};

struct SlopeRange {
  double least = 0, most = 0;
};

double SlopeOf(std::span<const Point> points) {
  double mean_x = 0, mean_y = 0;
  for (const Point& point : points) {
    mean_x += point.x / static_cast<double>(points.size());
    mean_y += point.y / static_cast<double>(points.size());
  }
  double products = 0, squares = 0;
  for (const Point& point : points) {
    products += (point.x - mean_x) * (point.y - mean_y);
    squares += (point.x - mean_x) * (point.x - mean_x);
  }
  return products / squares;
}

// Points ascend in x.
double ValueAt(std::span<const Point> points, double x,
               const SlopeRange& behind) {
  const auto after = std::ranges::find_if(
      points, [x](const Point& point) { return point.x > x; });
  if (after == points.end()) {
    const Point& last = points.back();
    const double slope = std::clamp(SlopeOf(points), behind.least, behind.most);
    return last.y + slope * (x - last.x);
  }
  const Point& before = *(after - 1);
  return before.y +
         (after->y - before.y) * (x - before.x) / (after->x - before.x);
}

// Of the recorded works.
class LengthFit {
 public:
  LengthFit(std::span<const RowWork> recorded, double context_tokens)
      : recorded_(recorded), x_(std::log2(context_tokens)) {}

  // Where one has none, what the last has.
  double Amount(double RowWork::* amount) const {
    std::vector<Point> points;
    for (const RowWork& work : recorded_) {
      if (work.*amount <= 0) return recorded_.back().*amount;
      points.push_back(
          {std::log2(work.context_tokens), std::log2(work.*amount)});
    }
    return std::exp2(ValueAt(points, x_, {0, 1}));
  }
  // Of what is wanted.
  double Share(double RowWork::* part, const SlopeRange& behind) const {
    std::vector<Point> points;
    for (const RowWork& work : recorded_) {
      const double share =
          work.wanted_tokens > 0 ? work.*part / work.wanted_tokens : 0;
      points.push_back({std::log2(work.context_tokens), share});
    }
    return std::max(0.0, ValueAt(points, x_, behind));
  }

 private:
  std::span<const RowWork> recorded_;
  const double x_;
};

}  // namespace

int LengthClass(double context_tokens) {
  return static_cast<int>(
      std::lround(std::log2(std::max(1.0, context_tokens))));
}

RowWork WorkAtLength(std::span<const RowWork> recorded, double context_tokens) {
  CHECK(
      recorded.size() >= 2 && context_tokens >= recorded.front().context_tokens,
      "lengths={} context_tokens={}", recorded.size(), context_tokens);
  for (size_t i = 1; i < recorded.size(); ++i) {
    CHECK(recorded[i - 1].context_tokens < recorded[i].context_tokens,
          "context_tokens={} before {}", recorded[i - 1].context_tokens,
          recorded[i].context_tokens);
  }
  const LengthFit fit(recorded, context_tokens);
  RowWork work = recorded.back();
  work.context_tokens = context_tokens;
  work.read_tokens = fit.Amount(&RowWork::read_tokens);
  work.wanted_tokens = fit.Amount(&RowWork::wanted_tokens);
  work.slot_tokens =
      std::min(fit.Amount(&RowWork::slot_tokens), context_tokens);
  work.missed_tokens =
      work.wanted_tokens *
      std::min(1.0, fit.Share(&RowWork::missed_tokens, {0, 1}));
  // As many hints as there were, however long it is.
  work.hinted_tokens =
      work.wanted_tokens * fit.Share(&RowWork::hinted_tokens, {0, 0});
  return work;
}

}  // namespace winnow
