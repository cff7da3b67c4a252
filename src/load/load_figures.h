// LoadFigures: the results of a run.
#ifndef WINNOW_LOAD_LOAD_FIGURES_H_
#define WINNOW_LOAD_LOAD_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "load/load_run.h"
#include "load/percentile.h"

namespace winnow {

// The goals that a good request meets, in milliseconds.
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

// Times and tokens count answered requests alone.
struct LoadFigures {
  size_t sent = 0;
  size_t answered = 0;
  size_t failed = 0;       // without interrupted ones
  size_t interrupted = 0;  // in flight when the run was stopped
  double seconds = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  size_t tokens_untold = 0;  // answers whose events were counted as tokens

  Samples ttft_ms;  // to the first token
  Samples tpot_ms;  // of each later token, averaged over a request
  Samples itl_ms;   // between two events with tokens
  Samples e2el_ms;  // to the end

  std::optional<size_t>
      good;  // answered requests that meet the goals; none: no goals
  // Requests sent more than kLateMs after their due time, because the client
  // was busy or max_concurrency requests were in flight.
  size_t late = 0;
  double most_late_ms = 0;
  double client_busy_share = 0;
  std::vector<FaultCount> faults;  // by their first request
};

inline constexpr double kLateMs = 10;

// The average time of a token after the first; none for a single token.
std::optional<double> TpotMs(const LoadOutcome& outcome);
bool IsGood(const LoadOutcome& outcome, const LoadGoals& goals);
LoadFigures MakeLoadFigures(const LoadResult& result, const LoadGoals& goals);

}  // namespace winnow

#endif  // WINNOW_LOAD_LOAD_FIGURES_H_
