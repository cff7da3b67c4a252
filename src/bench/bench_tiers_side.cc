#include "bench/bench_tiers_side.h"

#include <chrono>
#include <thread>

#include "backend/contract/replacement.h"
#include "bench/roofs/roof.h"
#include "cli/command/flag_value.h"

namespace winnow {
namespace {

// Of a warm-up, as long as the disk is busy.
constexpr std::chrono::milliseconds kDiskPause{20};

Result<HintOptions> HintsOf(const std::string& text) {
  HintOptions hints;
  if (text == "keep") return hints;
  if (text == "none") {
    hints.budget_times = 0;
    return hints;
  }
  if (WholeNumber(0, kEmptyAge, &hints.least_age)(text).empty()) return hints;
  return MakeError(ErrorCode::kInvalidArgument,
                   "--hints must be none, keep or an age from 0 to {}, has "
                   "\"{}\"",
                   int{kEmptyAge}, text);
}

}  // namespace

Result<std::vector<Tiers>> TiersOf(const BenchFlags& flags) {
  std::vector<Tiers> all = {{.name = "resident"},
                            {.name = "unused", .has_host = true}};
  if (!flags.kv_disk.empty()) {
    all.push_back({.name = "unused, disk", .has_host = true, .has_disk = true});
  }
  std::vector<HintOptions> hints;
  const std::vector<std::string> kinds = SplitList(flags.tiers_hints);
  for (const std::string& kind : kinds) {
    ASSIGN_OR_RETURN(hints.emplace_back(), HintsOf(kind));
  }
  if (flags.cache_budgets == "none") return all;
  EngineFlags engine = flags.engine;
  engine.host_kv = "1B";
  for (const std::string& budget : SplitList(flags.cache_budgets)) {
    engine.cache_budget = budget;
    RETURN_IF_ERROR(ParseEngineOptions(engine));
    for (size_t i = 0; i < kinds.size(); ++i) {
      const std::string of_hints =
          kinds.size() > 1 ? ", hints " + kinds[i] : std::string();
      all.push_back({.name = "slots, " + budget + of_hints,
                     .has_host = true,
                     .cache_budget = budget,
                     .hints = hints[i]});
    }
  }
  return all;
}

void TimedFetch::Fetch(Queue& queue, const LayerStep& step,
                       const FetchArgs& args, const LayerCache& cache) {
  seconds_ += SecondsOf([&] { real().Fetch(queue, step, args, cache); });
}

Result<std::unique_ptr<TiersSide>> TiersSide::Create(
    Backend& backend, TimedFetch& timed, const Model& model,
    const EngineOptions& options, Tiers tiers,
    std::unique_ptr<DiskStore> disk) {
  std::unique_ptr<TiersSide> side(new TiersSide(timed, std::move(tiers)));
  ASSIGN_OR_RETURN(side->engine_,
                   Engine::Create(backend, model, options, std::move(disk)));
  side->requests_.emplace(*side->engine_);
  return side;
}

Status TiersSide::TakeSteps(int num_steps) {
  for (int i = 0; i < num_steps; ++i) RETURN_IF_ERROR(engine_->Step());
  return Ok{};
}

Status TiersSide::WarmUp(int num_steps) {
  const DiskPrefixes* disk = engine_->disk();
  for (int i = 0; i < num_steps; ++i) {
    RETURN_IF_ERROR(TakeSteps(1));
    if (disk == nullptr || !disk->is_busy()) continue;
    std::this_thread::sleep_for(kDiskPause);
  }
  if (disk == nullptr) return Ok{};
  const DiskCounts& counts = disk->store().counts();
  if (counts.num_failed_writes > 0) {
    return MakeError(ErrorCode::kIo, "--kv-disk: {}", counts.first_failure);
  }
  if (!disk->is_busy()) return Ok{};
  return MakeError(ErrorCode::kIo,
                   "--kv-disk: after {} steps and pauses of {} ms the disk has "
                   "kept {} pages and is not done",
                   num_steps, kDiskPause.count(), counts.num_written);
}

Status TiersSide::TakeTurn(int num_steps) {
  Status status = Ok{};
  timed_.TakeSeconds();
  const double seconds = SecondsOf([&] { status = TakeSteps(num_steps); });
  RETURN_IF_ERROR(status);
  turns_.push_back({.step_seconds = seconds / num_steps,
                    .fetch_seconds = timed_.TakeSeconds() / num_steps});
  return Ok{};
}

}  // namespace winnow
