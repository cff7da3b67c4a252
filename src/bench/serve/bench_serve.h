// winnow bench serve: an open-loop load against an OpenAI-compatible server.
#ifndef WINNOW_BENCH_SERVE_BENCH_SERVE_H_
#define WINNOW_BENCH_SERVE_BENCH_SERVE_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/command/engine_flags.h"
#include "load/arrivals.h"
#include "load/load_figures.h"

namespace winnow {

struct BenchServeFlags {
  // As typed, unless stated; empty: not given.
  std::string base_url, host = "127.0.0.1", endpoint, backend, model, api_key;
  int port = 8000;
  std::vector<std::string> headers;
  std::string dataset_name;
  std::vector<std::string> dataset_paths;
  std::string match = "contains";
  std::string extra_body;
  int random_input_len = 1024, random_output_len = 128;
  std::optional<int> output_len;
  std::optional<int> num_prompts;
  int max_concurrency = 0;  // 0: no limit
  ArrivalProcess arrivals;
  bool request_rate_given = false;
  double trace_speed = 1;
  LoadGoals goals;
  std::string percentile_metrics = "ttft,tpot,itl,e2el";
  std::string metric_percentiles = "90,99";
  bool ignore_eos = false;
  bool no_stream = false;
  std::optional<float> temperature;
  int timeout_s = 3600;
  bool save_detailed = false;
  std::string svg_file;
  // Only --seed, --json and --quiet.
  EngineFlags engine;
};

Command& AddBenchServe(Command& bench, BenchServeFlags* flags);
// Returns the exit status.
Result<int> RunBenchServe(const BenchServeFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_SERVE_BENCH_SERVE_H_
