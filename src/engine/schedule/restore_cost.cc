#include "engine/schedule/restore_cost.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace winnow {
namespace {

// Steps of as many rows as may be, one after the other.
double ComputingMs(const RestoreRates& rates, const FarPages& pages) {
  const double num_rows = pages.num_tokens;
  const double num_steps = std::ceil(num_rows / rates.max_step_rows);
  const StepWork all = {
      .rows = num_rows,
      .reads = num_rows * (pages.first_token + (num_rows + 1) / 2)};
  const StepCost& cost = rates.computing;
  return cost.MsOf(all) + (num_steps - 1) * (cost.step_ms + cost.chunk_ms);
}

}  // namespace

RestoreForecast Foretell(const RestoreRates& rates, const FarPages& pages) {
  CHECK(pages.host_bytes >= 0 && pages.disk_bytes >= 0 && pages.num_tokens >= 0,
        "host_bytes={} disk_bytes={} num_tokens={}", pages.host_bytes,
        pages.disk_bytes, pages.num_tokens);
  RestoreForecast forecast;
  const bool is_link_known =
      rates.link_bytes_per_second > 0 || pages.host_bytes == 0;
  const bool is_disk_known =
      rates.disk_bytes_per_second > 0 || pages.disk_bytes == 0;
  if (is_link_known && is_disk_known) {
    double seconds = 0;
    if (pages.host_bytes > 0) {
      seconds +=
          static_cast<double>(pages.host_bytes) / rates.link_bytes_per_second;
    }
    if (pages.disk_bytes > 0) {
      seconds +=
          static_cast<double>(pages.disk_bytes) / rates.disk_bytes_per_second;
    }
    forecast.copying_ms = 1000 * seconds;
  }
  // A line through steps that generate says nothing of a prompt's, and one
  // through short prompts nothing of a long one's last step.
  const double step_rows = std::min(pages.num_tokens, rates.max_step_rows);
  const StepWork last_step = {
      .rows = step_rows,
      .reads = step_rows * (pages.first_token + pages.num_tokens)};
  if (step_rows > 0 && rates.computing.Covers(last_step)) {
    forecast.computing_ms = ComputingMs(rates, pages);
  }
  return forecast;
}

bool RestorePays(const RestoreRates& rates, const FarPages& pages) {
  if (rates.never_copies) return false;
  const auto [copying_ms, computing_ms] = Foretell(rates, pages);
  return !copying_ms || !computing_ms || *copying_ms <= *computing_ms;
}

void RateMeter::Add(double amount, double seconds, Clock::time_point now) {
  constexpr double kHalvedAfterSeconds = 1;
  amount_ += amount;
  seconds_ += seconds;
  last_ = now;
  if (seconds_ > kHalvedAfterSeconds) {
    amount_ /= 2;
    seconds_ /= 2;
  }
}

double RateMeter::PerSecond(Clock::time_point now) const {
  if (seconds_ <= 0 || now - last_ > kKnownFor) return 0;
  return amount_ / seconds_;
}

}  // namespace winnow
