// winnow bench step on a GPU: the time of a decode step for its user, for the
// device, and launch by launch.
#ifndef WINNOW_BENCH_BENCH_DEVICE_STEP_H_
#define WINNOW_BENCH_BENCH_DEVICE_STEP_H_

#include <functional>
#include <nlohmann/json.hpp>

#include "bench/bench_cells.h"
#include "bench/bench_promptless.h"

namespace winnow {

struct DeviceStepOptions {
  EngineFlags engine;
  int generated_tokens = 32;  // steps in a round
  int rounds = 3;
};

// Fails if the cell cannot be measured: its context, KV and selection.
Status CheckDeviceStep(const Backend& backend, const Model& model,
                       const DeviceStepOptions& options, const BenchCell& cell);

// The row of a cell:
//  tpot_ms      of a step of the engine, from its call to its tokens: medians
//               of the rounds
//  recorded_ms  of the forward pass, replayed, by the device's clock
//  host_ms      the difference: tables, sampling, and what the host does
//               between two steps
//  launches     of the forward pass, as many
//  launches_ms  their own times' sum, each run alone, with what an event takes
//  event_us     the same of a launch that does next to nothing
//  gap_us_a_layer, most_gap_us_a_layer  recorded_ms less launches_ms, by
//               layers; and where event_us is not counted as theirs: the gaps
//               lie between the two, and below 0 launches overlap
//  by_launch    [{"launch", "count", "us"}]: launches of a name, their sum
// The prompt is not computed: its K and V are random numbers.
Result<nlohmann::ordered_json> MeasureDeviceStep(
    PromptlessBackend& backend, const Model& model,
    const DeviceStepOptions& options, const BenchCell& cell);

std::string DeviceStepHeader();
std::string DeviceStepLine(const nlohmann::ordered_json& row);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_DEVICE_STEP_H_
