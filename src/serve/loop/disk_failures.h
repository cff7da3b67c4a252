// DiskFailures: log lines about failures of a disk.
#ifndef WINNOW_SERVE_LOOP_DISK_FAILURES_H_
#define WINNOW_SERVE_LOOP_DISK_FAILURES_H_

#include <chrono>
#include <optional>
#include <string>

#include "engine/residency/disk_prefixes.h"

namespace winnow {

// A disk that is full or gone fails for every page. The first failure is
// reported at once. Later ones are reported together, at least kGap after the
// last line. Used by one thread.
class DiskFailures {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kGap = std::chrono::minutes(1);

  // The line to log now, if any. REQUIRES: counts and times of one store, in
  // order.
  std::optional<std::string> Note(const DiskCounts& counts,
                                  Clock::time_point now);
  // The line for failures that are left at the end.
  std::optional<std::string> Rest(const DiskCounts& counts);

 private:
  int64_t num_told_ = 0;
  std::optional<Clock::time_point> told_at_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_LOOP_DISK_FAILURES_H_
