// winnow bench verbs on a GPU: the verbs of a decode step and of a prompt at a
// model's shape, as the device's own clock has them.
#ifndef WINNOW_BENCH_OPS_BENCH_DEVICE_VERBS_H_
#define WINNOW_BENCH_OPS_BENCH_DEVICE_VERBS_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/backend.h"
#include "bench/roofs/device_roofs.h"
#include "model/forward/model.h"

namespace winnow {

struct DeviceVerbsOptions {
  int rounds = 3;
  // Tokens that decode attends 16 times at once, and, four times as many, once;
  // selectors choose among the latter.
  int64_t decode_context = 32768;
  // Tokens of a prompt; half as many and twice as many are attended.
  int64_t prompt_context = 16384;
  int64_t chunk_rows = 2048;  // of a prompt: what products have many of
  // What one round of a verb must at least touch, so that no cache has it.
  int64_t round_bytes = int64_t{512} << 20;
  // Also Read and Select with memory laid out otherwise (docs/layout.md).
  bool layouts = false;
  DeviceRoofs::Sizes roofs;
  // Called with each row as it comes.
  std::function<Status(const nlohmann::ordered_json& row)> on_row = {};
};

// The rows of the table: each verb in microseconds a launch or layer, what it
// must move and compute at least, and its share of the roofs measured right
// before, medians over the rounds: {"read_roof_gb_per_second",
// "product_roof_gflops", "copied_bytes", "verbs"}. Runs on any backend; made
// for GPUs.
Result<nlohmann::ordered_json> MeasureDeviceVerbs(
    Backend& backend, const Model& model, const DeviceVerbsOptions& options);

// As text: what stands above the rows, one of them, and what is said of the
// report in the end.
std::string DeviceVerbsHeader();
std::string DeviceVerbsLine(const nlohmann::ordered_json& row);
std::string DeviceVerbsRoofs(const nlohmann::ordered_json& report);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_DEVICE_VERBS_H_
