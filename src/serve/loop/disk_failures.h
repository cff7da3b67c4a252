// What a disk fails at, as a log tells it.
#ifndef WINNOW_SERVE_LOOP_DISK_FAILURES_H_
#define WINNOW_SERVE_LOOP_DISK_FAILURES_H_

#include <chrono>
#include <optional>
#include <string>

#include "engine/residency/disk_prefixes.h"

namespace winnow {

// A disk that is full, or gone, fails at every page: the first failure is told
// at once, those behind it together, kGap after the last line at the earliest.
// Used by one thread.
class DiskFailures {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kGap = std::chrono::minutes(1);

  // What is to be told by now, if anything. REQUIRES: counts and now of one
  // store, in order.
  std::optional<std::string> Note(const DiskCounts& counts,
                                  Clock::time_point now);
  // What is left to be told at the end.
  std::optional<std::string> Rest(const DiskCounts& counts);

 private:
  int64_t num_told_ = 0;
  std::optional<Clock::time_point> told_at_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_LOOP_DISK_FAILURES_H_
