// What the engine measures of itself: how long steps take, and how fast pages
// come back.
#include <algorithm>
#include <vector>

#include "engine/engine.h"

namespace winnow {
namespace {

// Copied to learn how fast the link is: a millisecond or two, each time.
constexpr int64_t kMeasuredBytes = int64_t{8} << 20;
constexpr int kMeasurements = 3;

}  // namespace

// Where a step was launched behind it, that one begins now; so does the next
// one where somebody waits for it, who waits for what lies between them too.
void Engine::CountTime(const StepPlan& plan) {
  const bool may_restore = !options_.restore_rates && (host_ || disk_);
  if (options_.max_step_ms <= 0 && !may_restore) return;
  const auto now = Sequence::Clock::now();
  const std::chrono::duration<double, std::milli> took = now - step_begun_;
  step_begun_ = now;
  if (took.count() <= 0) return;
  const StepWork work = WorkOf(plan, model_.config().num_layers);
  if (options_.max_step_ms > 0 && work.single_rows > 0) {
    bounded_steps_.Add(work, took.count() > options_.max_step_ms);
  }
  step_cost_.Add(work, took.count());
}

Status Engine::BeginRates() {
  restore_rates_ = options_.restore_rates.value_or(RestoreRates());
  link_bytes_per_second_ = restore_rates_.link_bytes_per_second;
  const bool is_given = options_.restore_rates.has_value();
  if (host_ && (!is_given || options_.measures_link)) {
    RETURN_IF_ERROR(MeasureLink());
  }
  if (is_given) return Ok{};
  restore_rates_.max_step_rows = options_.max_num_batched_tokens;
  restore_rates_.link_bytes_per_second = link_bytes_per_second_;
  return Ok{};
}

// Nothing is in either pool yet. The first copies take the memory.
Status Engine::MeasureLink() {
  const int64_t num_pages =
      std::min({std::max<int64_t>(kMeasuredBytes / limits_.page_bytes, 1),
                num_pages_, host_->num_kv_blocks()});
  std::vector<TierCopy> copies;
  for (int64_t i = 0; i < num_pages; ++i) {
    const KvBlockId page(static_cast<uint32_t>(i));
    copies.push_back({TierCopy::Direction::kToDevice, page, page});
  }
  const auto num_bytes = static_cast<double>(num_pages * limits_.page_bytes);
  for (int i = 0; i < kMeasurements; ++i) {
    const auto start = RateMeter::Clock::now();
    runner_->CopyTiers(*host_, copies);
    RETURN_IF_ERROR(runner_->Drain());
    const std::chrono::duration<double> took = RateMeter::Clock::now() - start;
    link_bytes_per_second_ = std::max(link_bytes_per_second_,
                                      num_bytes / std::max(took.count(), 1e-9));
  }
  return Ok{};
}

RestoreRates Engine::restore_rates() const {
  RestoreRates rates = restore_rates_;
  if (!options_.restore_rates) rates.computing = step_cost_.cost();
  return rates;
}

void Engine::UpdateRates() {
  if (options_.restore_rates) return;
  restore_rates_.computing = step_cost_.cost();
  if (!disk_) return;
  const RateMeter::Clock::time_point now = RateMeter::Clock::now();
  const DiskCounts& counts = disk_->store().counts();
  const int64_t num_new = counts.num_read - disk_counts_.num_read;
  if (num_new > 0) {
    disk_rate_.Add(static_cast<double>(num_new * limits_.page_bytes),
                   counts.read_seconds - disk_counts_.read_seconds, now);
    disk_counts_ = counts;
  }
  restore_rates_.disk_bytes_per_second = disk_rate_.PerSecond(now);
}

}  // namespace winnow
