#include "engine/step_meter.h"

#include <algorithm>
#include <vector>

namespace winnow {
namespace {

// Copied to learn how fast the link is: a millisecond or two, each time.
constexpr int64_t kMeasuredBytes = int64_t{8} << 20;
constexpr int kMeasurements = 3;

}  // namespace

StepMeter::StepMeter(const EngineOptions& options, int num_layers,
                     int64_t page_bytes)
    : num_layers_(num_layers),
      page_bytes_(page_bytes),
      max_step_ms_(options.max_step_ms),
      is_given_(options.restore_rates.has_value()),
      measures_link_(!is_given_ || options.measures_link),
      restore_rates_(options.restore_rates.value_or(RestoreRates())),
      link_bytes_per_second_(restore_rates_.link_bytes_per_second) {
  if (!is_given_) restore_rates_.max_step_rows = options.max_num_batched_tokens;
}

// The first copies take the memory.
Status StepMeter::MeasureLink(const CopyAndWait& copy, int64_t num_pages) {
  num_pages =
      std::min(num_pages, std::max<int64_t>(kMeasuredBytes / page_bytes_, 1));
  if (!measures_link_ || num_pages == 0) return Ok{};
  std::vector<TierCopy> copies;
  for (int64_t i = 0; i < num_pages; ++i) {
    const KvBlockId page(static_cast<uint32_t>(i));
    copies.push_back({TierCopy::Direction::kToDevice, page, page});
  }
  const auto num_bytes = static_cast<double>(num_pages * page_bytes_);
  for (int i = 0; i < kMeasurements; ++i) {
    const auto start = Clock::now();
    RETURN_IF_ERROR(copy(copies));
    const std::chrono::duration<double> took = Clock::now() - start;
    link_bytes_per_second_ = std::max(link_bytes_per_second_,
                                      num_bytes / std::max(took.count(), 1e-9));
  }
  if (!is_given_) restore_rates_.link_bytes_per_second = link_bytes_per_second_;
  return Ok{};
}

void StepMeter::CountStep(const StepPlan& plan, Clock::time_point now) {
  if (max_step_ms_ <= 0 && (is_given_ || !may_restore_)) return;
  const std::chrono::duration<double, std::milli> took = now - step_begun_;
  step_begun_ = now;
  if (took.count() <= 0) return;
  const StepWork work = WorkOf(plan, num_layers_);
  if (max_step_ms_ > 0 && work.single_rows > 0) {
    bounded_steps_.Add(work, took.count() > max_step_ms_);
  }
  step_cost_.Add(work, took.count());
}

void StepMeter::UpdateRates(const DiskCounts& disk, Clock::time_point now) {
  if (is_given_) return;
  restore_rates_.computing = step_cost_.cost();
  const int64_t num_new = disk.num_read - num_disk_pages_;
  if (num_new > 0) {
    disk_rate_.Add(static_cast<double>(num_new * page_bytes_),
                   disk.read_seconds - disk_seconds_, now);
    num_disk_pages_ = disk.num_read;
    disk_seconds_ = disk.read_seconds;
  }
  restore_rates_.disk_bytes_per_second = disk_rate_.PerSecond(now);
}

RestoreRates StepMeter::restore_rates() const {
  RestoreRates rates = restore_rates_;
  if (!is_given_) rates.computing = step_cost_.cost();
  return rates;
}

double StepMeter::LinkMs(int64_t num_bytes) const {
  if (link_bytes_per_second_ == 0) return 0;
  return 1000 * static_cast<double>(num_bytes) / link_bytes_per_second_;
}

EngineCounters StepMeter::Counters(const DiskCounts& disk) const {
  EngineCounters counters = counters_;
  counters.traffic.host_to_device_bytes +=
      counters.brought.fetched_bytes + counters.brought.near_bytes;
  counters.traffic.host_to_disk_bytes = disk.num_written * page_bytes_;
  counters.traffic.disk_to_host_bytes = disk.num_read * page_bytes_;
  counters.stall_ms += LinkMs(counters.traffic.host_to_device_bytes);
  return counters;
}

}  // namespace winnow
