// One of the engines that winnow bench tiers sets side by side.
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

// What the requests have besides the device's pool.
struct Tiers {
  std::string name;
  bool has_host = false;
  bool has_disk = false;
  std::string cache_budget = {};  // as typed; empty: whole pages
  HintOptions hints = {};
};

// "resident", "unused", with a disk "unused, disk", and one for each cache
// budget and kind of hints of the flags.
Result<std::vector<Tiers>> TiersOf(const BenchFlags& flags);

// Says what Fetch takes, fetches included. REQUIRES: ops have ended when they
// return.
class TimedFetch final : public ForwardingBackend {
 public:
  explicit TimedFetch(std::unique_ptr<Backend> real)
      : ForwardingBackend(std::move(real)) {}

  void Fetch(Queue& queue, const LayerStep& step, const FetchArgs& args,
             const LayerCache& cache) override;
  // Since the last call.
  double TakeSeconds() { return std::exchange(seconds_, 0); }

 private:
  double seconds_ = 0;
};

// Owns an engine, its requests, and what its turns took. REQUIRES: the backend,
// whose Fetch `timed` is, and the model outlive it.
class TiersSide {
 public:
  // A step's seconds, mean over a turn's steps.
  struct Turn {
    double step_seconds = 0, fetch_seconds = 0;
  };

  // `disk`: null where the tiers have none.
  static Result<std::unique_ptr<TiersSide>> Create(
      Backend& backend, TimedFetch& timed, const Model& model,
      const EngineOptions& options, Tiers tiers,
      std::unique_ptr<DiskStore> disk);

  const Tiers& tiers() const { return tiers_; }
  CellRequests& requests() { return *requests_; }
  const std::vector<Turn>& turns() const { return turns_; }

  // So many steps that no turn counts. Fails where the disk has not kept what
  // the prompt has left by then.
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
