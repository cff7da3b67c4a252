// StepMeter: what steps cost, how fast pages come back, and what is counted.
#ifndef WINNOW_ENGINE_STEP_METER_H_
#define WINNOW_ENGINE_STEP_METER_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include "cache/disk/disk_store.h"
#include "cache/host/host_pool.h"
#include "engine/engine_options.h"
#include "engine/request/engine_counters.h"
#include "engine/schedule/restore_cost.h"
#include "engine/schedule/step_cost.h"

namespace winnow {

// Used by the engine's thread alone. It decides nothing, and reads no clock but
// in MeasureLink: callers say what time it is.
class StepMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // Of a model of `num_layers`, whose pages have `page_bytes` over all layers.
  StepMeter(const EngineOptions& options, int num_layers, int64_t page_bytes);

  // Measures the link to the host where its rate is wanted, by copies of
  // `num_pages` at most from the host's pool. A pool of no pages is not
  // measured. `copy` enqueues copies and waits for them; fails where it does.
  // REQUIRES: neither pool holds anything yet.
  using CopyAndWait = std::function<Status(std::span<const TierCopy>)>;
  Status MeasureLink(const CopyAndWait& copy, int64_t num_pages);
  // Whether pages may come back from the host or a disk: then the cost of
  // computing them is measured.
  void set_may_restore(bool may_restore) { may_restore_ = may_restore; }

  // The next step to land begins now.
  void BeginStep(Clock::time_point now) { step_begun_ = now; }
  // A step has landed. The next one to land begins now: where it was launched
  // behind this one, and where a request waits for it.
  void CountStep(const StepPlan& plan, Clock::time_point now);
  // `disk`: what it has done since it was opened.
  void UpdateRates(const DiskCounts& disk, Clock::time_point now);

  const StepCost& cost() const { return step_cost_.cost(); }
  // How steps kept to max_step_ms.
  const BoundedSteps& bounded_steps() const { return bounded_steps_; }
  // The rates by which pages are copied back or computed again, as of the last
  // UpdateRates; and with what steps have shown since.
  const RestoreRates& decided_rates() const { return restore_rates_; }
  RestoreRates restore_rates() const;
  // How long so many bytes are on the link; 0 where its rate is not known.
  double LinkMs(int64_t num_bytes) const;

  // Counts of the engine and its residency, without the disk's bytes and the
  // time on the link.
  EngineCounters& counted() { return counters_; }
  // With these.
  EngineCounters Counters(const DiskCounts& disk) const;

 private:
  const int num_layers_;
  const int64_t page_bytes_;
  const double max_step_ms_;
  const bool is_given_;  // the restore rates are
  const bool measures_link_;
  bool may_restore_ = false;
  StepCostFit step_cost_;
  BoundedSteps bounded_steps_;
  Clock::time_point step_begun_;
  RestoreRates restore_rates_;
  double link_bytes_per_second_ = 0;  // 0: not known
  RateMeter disk_rate_;
  int64_t num_disk_pages_ = 0;  // that disk_rate_ knows
  double disk_seconds_ = 0;     // the same
  EngineCounters counters_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_STEP_METER_H_
