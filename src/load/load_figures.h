// What a run comes to.
#ifndef WINNOW_LOAD_LOAD_FIGURES_H_
#define WINNOW_LOAD_LOAD_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "load/load_run.h"
#include "load/percentile.h"

namespace winnow {

// What a request must keep to count as good; each in milliseconds.
struct LoadGoals {
  std::optional<double> ttft_ms = {};
  std::optional<double> tpot_ms = {};
  std::optional<double> e2el_ms = {};

  bool any() const { return ttft_ms || tpot_ms || e2el_ms; }
};

struct FaultCount {
  std::string name;  // FaultName
  size_t count = 0;
  size_t first = 0;  // the request's index
  std::string example;
};

// Times are of answered requests alone, and so are tokens.
struct LoadFigures {
  size_t sent = 0;
  size_t answered = 0;
  size_t failed = 0;       // interrupted ones are neither
  size_t interrupted = 0;  // when the run was stopped
  double seconds = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  size_t tokens_untold = 0;  // answers whose events were counted instead

  Samples ttft_ms;  // to the first token
  Samples tpot_ms;  // of each later token, a mean per request
  Samples itl_ms;   // between two events with tokens
  Samples e2el_ms;  // to the end

  std::optional<size_t> good;  // of those answered; none: no goals
  // Sent more than kLateMs behind their time: by the client, or because
  // max_concurrency were under way.
  size_t late = 0;
  double most_late_ms = 0;
  double client_busy_share = 0;
  std::vector<FaultCount> faults;  // by their first request
};

inline constexpr double kLateMs = 10;

// The time of each token after the first, if there is more than one.
std::optional<double> TpotMs(const LoadOutcome& outcome);
bool IsGood(const LoadOutcome& outcome, const LoadGoals& goals);
LoadFigures MakeLoadFigures(const LoadResult& result, const LoadGoals& goals);

}  // namespace winnow

#endif  // WINNOW_LOAD_LOAD_FIGURES_H_
