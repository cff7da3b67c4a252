#include "bench/bench_device_step.h"

#include <chrono>

#include "bench/roofs/device_roofs.h"
#include "bench/roofs/roof.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// Steps that no round counts: the one that is measured, and those before it.
constexpr int kStepsBesides = 3;

Result<double> StepSeconds(Engine& engine, int num_steps) {
  std::vector<double> seconds;
  for (int i = 0; i < num_steps; ++i) {
    Status status = Ok{};
    seconds.push_back(SecondsOf([&] {
      const Result<bool> more = engine.Step();
      if (!more.ok()) status = more.error();
    }));
    RETURN_IF_ERROR(status);
  }
  return Median(std::move(seconds));
}

int MaxTokens(const BenchCell& cell, const DeviceStepOptions& options) {
  return MaxTokensOf(cell, options.engine,
                     options.rounds * options.generated_tokens + kStepsBesides);
}

Json RowOf(const BenchCell& cell, double tpot, const StepTimes& times,
           double event_seconds, int num_layers) {
  double own = 0;
  Json by_launch = Json::array();
  for (const LaunchTime& time : times.launches) {
    own += time.seconds;
    auto known = std::ranges::find_if(by_launch, [&](const Json& entry) {
      return entry["launch"] == time.name;
    });
    if (known == by_launch.end()) {
      by_launch.push_back({{"launch", time.name}, {"count", 0}, {"us", 0.0}});
      known = std::prev(by_launch.end());
    }
    (*known)["count"] = (*known)["count"].get<int>() + 1;
    (*known)["us"] = (*known)["us"].get<double>() + time.seconds * 1e6;
  }
  const auto num_launches = static_cast<double>(times.launches.size());
  const double gap = times.recorded_seconds - own;
  return {{"select", cell.select},
          {"context", cell.context_tokens},
          {"batch", cell.batch},
          {"tpot_ms", tpot * 1e3},
          {"tokens_per_second", cell.batch / tpot},
          {"recorded_ms", times.recorded_seconds * 1e3},
          {"host_ms", (tpot - times.recorded_seconds) * 1e3},
          {"launches", times.launches.size()},
          {"launches_ms", own * 1e3},
          {"event_us", event_seconds * 1e6},
          {"gap_us_a_layer", gap / num_layers * 1e6},
          {"most_gap_us_a_layer",
           (gap + num_launches * event_seconds) / num_layers * 1e6},
          {"by_launch", std::move(by_launch)}};
}

}  // namespace

Status CheckDeviceStep(const Backend& backend, const Model& model,
                       const DeviceStepOptions& options,
                       const BenchCell& cell) {
  ASSIGN_OR_RETURN(
      const EngineOptions engine_options,
      EngineOptionsOf(cell, options.engine, model, MaxTokens(cell, options)));
  return CheckCell(engine_options, model, backend);
}

Result<Json> MeasureDeviceStep(PromptlessBackend& backend, const Model& model,
                               const DeviceStepOptions& options,
                               const BenchCell& cell) {
  ASSIGN_OR_RETURN(const EmptyLaunchSeconds empty, MeasureEmptyLaunch(backend));
  const int max_tokens = MaxTokens(cell, options);
  ASSIGN_OR_RETURN(const EngineOptions engine_options,
                   EngineOptionsOf(cell, options.engine, model, max_tokens));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(backend, model, engine_options));
  CellRequests requests(*engine);
  RETURN_IF_ERROR(requests.Add(cell, max_tokens, model.config().vocab_size,
                               options.engine.seed));
  backend.LeaveOut();
  const Status prompted = requests.StepUntilAllGenerate();
  backend.Compute();
  RETURN_IF_ERROR(prompted);
  RETURN_IF_ERROR(StepSeconds(*engine, 2));  // To warm up, and to record.
  std::vector<double> tpots;
  for (int round = 0; round < options.rounds; ++round) {
    ASSIGN_OR_RETURN(const double seconds,
                     StepSeconds(*engine, options.generated_tokens));
    tpots.push_back(seconds);
  }
  backend.MeasureNextStep(options.rounds);
  RETURN_IF_ERROR(StepSeconds(*engine, 1));
  ASSIGN_OR_RETURN(const std::optional<StepTimes> times, backend.TakeTimes());
  CHECK(times.has_value(), "a decode step is replayed");
  return RowOf(cell, Median(std::move(tpots)), *times, empty.with_event,
               model.config().num_layers);
}

std::string DeviceStepHeader() {
  return fmt::format("{:>8} {:>6} {:>9} {:>12} {:>9} {:>9} {:>12} {:>18}  {}\n",
                     "context", "batch", "TPOT, ms", "recorded, ms", "host, ms",
                     "launches", "alone, ms", "gaps a layer, us", "select");
}

std::string DeviceStepLine(const Json& row) {
  std::string line = fmt::format(
      "{:>8} {:>6} {:>9.3f} {:>12.3f} {:>9.3f} {:>9} {:>12.3f} {:>18}  {}\n",
      row["context"].get<int>(), row["batch"].get<int>(),
      row["tpot_ms"].get<double>(), row["recorded_ms"].get<double>(),
      row["host_ms"].get<double>(), row["launches"].get<int>(),
      row["launches_ms"].get<double>(),
      fmt::format("{:.1f} to {:.1f}", row["gap_us_a_layer"].get<double>(),
                  row["most_gap_us_a_layer"].get<double>()),
      row["select"].get<std::string>());
  for (const Json& launch : row["by_launch"]) {
    line += fmt::format("{:>15} {:>9.1f} us of {:>4} \"{}\"\n", "",
                        launch["us"].get<double>(), launch["count"].get<int>(),
                        launch["launch"].get<std::string>());
  }
  return line;
}

}  // namespace winnow
