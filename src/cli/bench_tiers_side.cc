#include "cli/bench_tiers_side.h"

#include <algorithm>

#include "backend/replacement.h"
#include "cli/flag_value.h"
#include "cli/roof.h"

namespace winnow {
namespace {

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> pieces;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

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

void TimedBring::Bring(Queue& queue, const LayerStep& step,
                       const BringArgs& args, const LayerCache& cache) {
  seconds_ += SecondsOf([&] { real().Bring(queue, step, args, cache); });
}

Result<std::unique_ptr<TiersSide>> TiersSide::Create(
    Backend& backend, TimedBring& timed, const Model& model,
    const EngineOptions& options, Tiers tiers) {
  std::unique_ptr<TiersSide> side(new TiersSide(timed, std::move(tiers)));
  ASSIGN_OR_RETURN(side->engine_, Engine::Create(backend, model, options));
  side->requests_.emplace(*side->engine_);
  return side;
}

Status TiersSide::WarmUp(int num_steps) {
  for (int i = 0; i < num_steps; ++i) RETURN_IF_ERROR(engine_->Step());
  return Ok{};
}

Status TiersSide::TakeTurn(int num_steps) {
  Status status = Ok{};
  timed_.TakeSeconds();
  const double seconds = SecondsOf([&] { status = WarmUp(num_steps); });
  RETURN_IF_ERROR(status);
  turns_.push_back({.step_seconds = seconds / num_steps,
                    .bring_seconds = timed_.TakeSeconds() / num_steps});
  return Ok{};
}

}  // namespace winnow
