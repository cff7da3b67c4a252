// TiersSide: one of the engines that winnow bench tiers compares.
#ifndef WINNOW_BENCH_BENCH_TIERS_SIDE_H_
#define WINNOW_BENCH_BENCH_TIERS_SIDE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/forwarding.h"
#include "bench/bench.h"
#include "bench/bench_cells.h"
#include "engine/engine.h"

namespace winnow {

// The tiers of the requests beside the device's pool.
struct Tiers {
  std::string name;
  bool has_host = false;
  bool has_disk = false;
  std::string cache_budget = {};  // as typed; empty: resident pages
  HintOptions hints = {};
};

// "resident", "unused", with a disk "unused, disk", and one for each of the
// flags' cache budgets and kinds of hints.
Result<std::vector<Tiers>> TiersOf(const BenchFlags& flags);

// Measures the time of Fetch, transfers included. REQUIRES: an op has ended
// when its call returns.
class TimedFetch final : public ForwardingBackend {
 public:
  explicit TimedFetch(std::unique_ptr<Backend> real)
      : ForwardingBackend(std::move(real)) {}

  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override;
  // Seconds since the last call.
  double TakeSeconds() { return std::exchange(seconds_, 0); }

 private:
  double seconds_ = 0;
};

// Owns an engine, its requests, and the times of its turns. REQUIRES: the
// backend, which contains `timed`, and the model outlive it.
class TiersSide {
 public:
  // Seconds of a step, averaged over a turn.
  struct Turn {
    double step_seconds = 0, fetch_seconds = 0;
  };

  // `disk`: null without a disk tier.
  static Result<std::unique_ptr<TiersSide>> Create(
      Backend& backend, TimedFetch& timed, const Model& model,
      const EngineOptions& options, Tiers tiers,
      std::unique_ptr<DiskStore> disk);

  const Tiers& tiers() const { return tiers_; }
  CellRequests& requests() { return *requests_; }
  const std::vector<Turn>& turns() const { return turns_; }

  // Runs steps that no turn counts. Fails if the disk has not written the
  // prompt's pages by then.
  Status WarmUp(int num_steps);
  Status TakeTurn(int num_steps);

 private:
  TiersSide(TimedFetch& timed, Tiers tiers)
      : timed_(timed), tiers_(std::move(tiers)) {}

  Status TakeSteps(int num_steps);

  TimedFetch& timed_;
  const Tiers tiers_;
  std::unique_ptr<Engine> engine_;
  std::optional<CellRequests> requests_;
  std::vector<Turn> turns_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_TIERS_SIDE_H_
