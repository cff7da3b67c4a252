// What winnow bench serve tells: a table, and JSON.
#ifndef WINNOW_BENCH_SERVE_BENCH_SERVE_REPORT_H_
#define WINNOW_BENCH_SERVE_BENCH_SERVE_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/serve/bench_serve.h"

namespace winnow {

// Which figures are told, and which percentiles of each.
struct ServeMetrics {
  std::vector<std::string> names;   // of ttft, tpot, itl, e2el
  std::vector<double> percentiles;  // in [0, 100]
};

// Of --percentile-metrics and --metric-percentiles.
Result<ServeMetrics> ParseServeMetrics(const std::string& names,
                                       const std::string& percentiles);

// Of the answers that say what is right.
struct ServeAnswers {
  size_t checked = 0;
  size_t right = 0;
  std::string wrong;  // the first wrong one, and its request
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
// Where vLLM's `vllm bench serve` has the figure, it has that name here.
nlohmann::ordered_json ServeJson(const ServeReport& report);
// Each request, in the order in which they were due.
nlohmann::ordered_json ServeRequestsJson(
    const std::vector<LoadOutcome>& outcomes);

}  // namespace winnow

#endif  // WINNOW_BENCH_SERVE_BENCH_SERVE_REPORT_H_
