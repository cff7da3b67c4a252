#include "load/arrivals.h"

#include <cmath>
#include <random>

#include "base/check.h"

namespace winnow {
namespace {

// The standard library's distributions are each library's own; its engine is
// not.
class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}

  // Above 0 and at most 1.
  double Uniform() {
    constexpr double kStep = 0x1p-53;
    return (static_cast<double>(engine_() >> 11) + 1) * kStep;
  }
  // Marsaglia's polar method.
  double Normal() {
    while (true) {
      const double x = 2 * Uniform() - 1, y = 2 * Uniform() - 1;
      const double square = x * x + y * y;
      if (square >= 1 || square == 0) continue;
      return x * std::sqrt(-2 * std::log(square) / square);
    }
  }
  double Exponential() { return -std::log(Uniform()); }
  // Of scale 1. Marsaglia and Tsang, "A simple method for generating gamma
  // variables", ACM TOMS 26 (2000), sections 2 and 6.
  double Gamma(double shape) {
    if (shape < 1) {
      const double above = Gamma(shape + 1);
      return above * std::pow(Uniform(), 1 / shape);
    }
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = Normal();
      const double root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(Uniform()) < x * x / 2 + d * (1 - v + std::log(v))) {
        return d * v;
      }
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace

std::vector<double> ArrivalTimes(const ArrivalProcess& process, size_t count,
                                 uint64_t seed) {
  const double rate = process.requests_per_second;
  const double shape = process.burstiness;
  CHECK(rate > 0 && shape > 0 && std::isfinite(shape),
        "requests_per_second={} burstiness={}", rate, shape);
  std::vector<double> times(count, 0.0);
  if (std::isinf(rate)) return times;
  Draws draws(seed);
  for (size_t i = 1; i < count; ++i) {
    const double gap =
        shape == 1 ? draws.Exponential() : draws.Gamma(shape) / shape;
    times[i] = times[i - 1] + gap / rate;
  }
  return times;
}

}  // namespace winnow
