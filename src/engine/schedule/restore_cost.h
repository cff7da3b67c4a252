// Whether pages that lie far from the device are copied or computed again, by
// what was measured.
#ifndef WINNOW_ENGINE_SCHEDULE_RESTORE_COST_H_
#define WINNOW_ENGINE_SCHEDULE_RESTORE_COST_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "engine/schedule/step_cost.h"

namespace winnow {

// How fast pages come back. Zero: not known.
struct RestoreRates {
  bool never_copies = false;         // whatever is known
  double link_bytes_per_second = 0;  // from the host to the device
  double disk_bytes_per_second = 0;  // from a disk to the host
  StepCost computing = {};
  int max_step_rows = 0;  // of a step that computes them
};

// The KV of tokens [first_token, first_token + num_tokens) of one sequence,
// bytes by where they come from.
struct FarPages {
  int64_t host_bytes = 0;
  int64_t disk_bytes = 0;
  int first_token = 0;
  int num_tokens = 0;
};

// What either would take, were there nothing else to do. None: a rate is not
// known, or no step like the last one of these was measured.
struct RestoreForecast {
  std::optional<double> copying_ms;
  std::optional<double> computing_ms;
};
RestoreForecast Foretell(const RestoreRates& rates, const FarPages& pages);

// Whether they are copied in less time than they are computed again. True where
// either is not known: a copy leaves the step's rows to others. So with nothing
// known all are copied.
bool RestorePays(const RestoreRates& rates, const FarPages& pages);

// How fast something is of late: what was added long before the last second of
// work counts less and less, and what is a minute old is known no longer.
class RateMeter {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kKnownFor{60};

  void Add(double amount, double seconds, Clock::time_point now);
  double PerSecond(Clock::time_point now) const;

 private:
  double amount_ = 0;
  double seconds_ = 0;
  Clock::time_point last_ = {};
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_RESTORE_COST_H_
