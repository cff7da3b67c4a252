#include "serve/loop/disk_failures.h"

#include <utility>

namespace winnow {

std::optional<std::string> DiskFailures::Note(const DiskCounts& counts,
                                              Clock::time_point now) {
  if (told_at_ && now - *told_at_ < kGap) return std::nullopt;
  std::optional<std::string> line = Rest(counts);
  if (line) told_at_ = now;
  return line;
}

std::optional<std::string> DiskFailures::Rest(const DiskCounts& counts) {
  const int64_t num_failed = counts.num_failed_writes + counts.num_failed_reads;
  if (num_failed == num_told_) return std::nullopt;
  const int64_t num_new = num_failed - std::exchange(num_told_, num_failed);
  return fmt::format("{} pages of KV were not kept or not found again: {}",
                     num_new, counts.last_failure);
}

}  // namespace winnow
