// ServeReport: the output of winnow bench serve, as a table and as JSON.
#ifndef WINNOW_BENCH_SERVE_BENCH_SERVE_REPORT_H_
#define WINNOW_BENCH_SERVE_BENCH_SERVE_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/serve/bench_serve.h"

namespace winnow {

// The figures to print, and the percentiles of each.
struct ServeMetrics {
  std::vector<std::string> names;   // of ttft, tpot, itl, e2el
  std::vector<double> percentiles;  // in [0, 100]
};

// Parses --percentile-metrics and --metric-percentiles.
Result<ServeMetrics> ParseServeMetrics(const std::string& names,
                                       const std::string& percentiles);

// Of prompts with a matcher.
struct ServeAnswers {
  size_t checked = 0;
  size_t right = 0;
  std::string wrong;  // the first wrong answer, and its request
};

struct ServeReport {
  const BenchServeFlags& flags;
  std::string model;
  std::string address;  // "127.0.0.1:8000/v1/completions"
  std::string backend;  // "openai" or "openai-chat"
  size_t num_prompts = 0;
  ServeMetrics metrics = {};
  LoadFigures figures = {};
  ServeAnswers answers = {};
};

std::string ServeTable(const ServeReport& report);
// Figures of vLLM's `vllm bench serve` have its names.
nlohmann::ordered_json ServeJson(const ServeReport& report);
// Each request, in the order of their due times.
nlohmann::ordered_json ServeRequestsJson(
    const std::vector<LoadOutcome>& outcomes);

}  // namespace winnow

#endif  // WINNOW_BENCH_SERVE_BENCH_SERVE_REPORT_H_
