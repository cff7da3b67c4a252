#include "simulate/length_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
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

// The straight line of the logarithms of `amount(work)` over `works`; what the
// last has where one has none.
template <typename Amount>
double GeometricAt(std::span<const RowWork> works, double context_tokens,
                   const SlopeRange& behind, Amount&& amount) {
  std::vector<Point> points;
  for (const RowWork& work : works) {
    if (amount(work) <= 0) return amount(works.back());
    points.push_back({std::log2(work.context_tokens), std::log2(amount(work))});
  }
  return std::exp2(ValueAt(points, std::log2(context_tokens), behind));
}

// Those that the cache does not hold.
std::vector<RowWork> NotHeld(std::span<const RowWork> recorded) {
  std::vector<RowWork> works;
  std::ranges::remove_copy_if(recorded, std::back_inserter(works), CacheHolds);
  return works;
}

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
  CHECK(CanPlace(recorded, context_tokens), "context_tokens={}",
        context_tokens);
  constexpr SlopeRange kAmount = {0, 1};
  constexpr SlopeRange kNear = {-std::numeric_limits<double>::infinity(), 0};
  const bool is_behind = context_tokens > recorded.back().context_tokens;
  const std::vector<RowWork> behind = NotHeld(recorded);
  const std::span<const RowWork> by_cache = is_behind ? behind : recorded;
  const auto at = [&](std::span<const RowWork> works, const SlopeRange& range,
                      auto amount) {
    return GeometricAt(works, context_tokens, range, amount);
  };
  RowWork work = recorded.back();
  work.context_tokens = context_tokens;
  work.read_tokens =
      at(recorded, kAmount, [](const RowWork& w) { return w.read_tokens; });
  work.wanted_tokens =
      at(recorded, kAmount, [](const RowWork& w) { return w.wanted_tokens; });
  work.slot_tokens = std::min(
      context_tokens,
      at(by_cache, kAmount, [](const RowWork& w) { return w.slot_tokens; }));
  const double near =
      at(by_cache, kNear, [](const RowWork& w) { return w.hit_rate(); });
  const RowWork& last = recorded.back();
  work.missed_tokens = work.wanted_tokens * std::max(0.0, 1 - near);
  work.hinted_tokens =
      last.wanted_tokens > 0
          ? work.wanted_tokens * last.hinted_tokens / last.wanted_tokens
          : 0;
  return work;
}

bool CanPlace(std::span<const RowWork> recorded, double context_tokens) {
  return context_tokens <= recorded.back().context_tokens ||
         std::ranges::count_if(recorded, std::not_fn(CacheHolds)) >= 2;
}

}  // namespace winnow
