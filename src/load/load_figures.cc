#include "load/load_figures.h"

#include <algorithm>

namespace winnow {
namespace {

constexpr double kMsPerSecond = 1000;

void CountFault(const LoadOutcome& outcome, size_t index,
                std::vector<FaultCount>* faults) {
  const std::string name = FaultName(outcome);
  const auto found = std::ranges::find(*faults, name, &FaultCount::name);
  if (found != faults->end()) {
    ++found->count;
    return;
  }
  faults->push_back({.name = name,
                     .count = 1,
                     .first = index,
                     .example = outcome.fault_text});
}

// Times of all answers, before they are put in order.
struct Times {
  std::vector<double> ttft, tpot, itl, e2el;

  void Add(const LoadOutcome& outcome) {
    e2el.push_back(outcome.latency_s * kMsPerSecond);
    if (!outcome.first_token_s) return;
    ttft.push_back(*outcome.first_token_s * kMsPerSecond);
    if (const auto each = TpotMs(outcome)) tpot.push_back(*each);
    for (const double gap : outcome.gaps_s) itl.push_back(gap * kMsPerSecond);
  }
};

}  // namespace

std::optional<double> TpotMs(const LoadOutcome& outcome) {
  if (!outcome.first_token_s || outcome.completion_tokens < 2) return {};
  return (outcome.latency_s - *outcome.first_token_s) * kMsPerSecond /
         static_cast<double>(outcome.completion_tokens - 1);
}

bool IsGood(const LoadOutcome& outcome, const LoadGoals& goals) {
  if (!outcome.answered()) return false;
  const auto keeps = [](const std::optional<double>& ms,
                        const std::optional<double>& goal) {
    return !goal || !ms || *ms <= *goal;
  };
  std::optional<double> ttft_ms;
  if (outcome.first_token_s) ttft_ms = *outcome.first_token_s * kMsPerSecond;
  return keeps(ttft_ms, goals.ttft_ms) &&
         keeps(TpotMs(outcome), goals.tpot_ms) &&
         keeps(outcome.latency_s * kMsPerSecond, goals.e2el_ms);
}

LoadFigures MakeLoadFigures(const LoadResult& result, const LoadGoals& goals) {
  LoadFigures figures;
  figures.sent = result.outcomes.size();
  figures.seconds = result.seconds;
  figures.client_busy_share = result.client_busy_share;
  if (goals.any()) figures.good = 0;
  Times times;
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    const LoadOutcome& outcome = result.outcomes[i];
    const double late_ms = (outcome.sent_s - outcome.due_s) * kMsPerSecond;
    figures.late += late_ms > kLateMs ? 1 : 0;
    figures.most_late_ms = std::max(figures.most_late_ms, late_ms);
    if (!outcome.answered()) {
      const bool interrupted = outcome.fault == Fault::kInterrupted;
      ++(interrupted ? figures.interrupted : figures.failed);
      if (!interrupted) CountFault(outcome, i, &figures.faults);
      continue;
    }
    ++figures.answered;
    figures.prompt_tokens += outcome.prompt_tokens;
    figures.cached_tokens += outcome.cached_tokens;
    figures.completion_tokens += outcome.completion_tokens;
    figures.tokens_untold += outcome.tokens_told ? 0 : 1;
    if (figures.good && IsGood(outcome, goals)) ++*figures.good;
    times.Add(outcome);
  }
  figures.ttft_ms = Samples(std::move(times.ttft));
  figures.tpot_ms = Samples(std::move(times.tpot));
  figures.itl_ms = Samples(std::move(times.itl));
  figures.e2el_ms = Samples(std::move(times.e2el));
  return figures;
}

}  // namespace winnow
