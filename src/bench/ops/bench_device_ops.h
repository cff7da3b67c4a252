// winnow bench ops on a GPU: the ops of a decode step and of a prompt at a
// model's shape, as the device's own clock has them.
#ifndef WINNOW_BENCH_OPS_BENCH_DEVICE_OPS_H_
#define WINNOW_BENCH_OPS_BENCH_DEVICE_OPS_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/backend.h"
#include "bench/roofs/device_roofs.h"
#include "model/forward/model.h"

namespace winnow {

struct DeviceOpsOptions {
  int rounds = 3;
  // Tokens that decode attends 16 times at once, and, four times as many, once;
  // selectors choose among the latter.
  int64_t decode_context = 32768;
  // Tokens of a prompt; half as many and twice as many are attended.
  int64_t prompt_context = 16384;
  int64_t chunk_rows = 2048;  // of a prompt: what products have many of
  // What one round of an op must at least touch, so that no cache has it.
  int64_t round_bytes = int64_t{512} << 20;
  // Also Attend and Select with memory laid out otherwise
  // (docs/decisions/002-memory-layout.md).
  bool layouts = false;
  DeviceRoofs::Sizes roofs;
  // Called with each row as it comes.
  std::function<Status(const nlohmann::ordered_json& row)> on_row = {};
};

// The rows of the table: each op in microseconds a launch or layer, what it
// must move and compute at least, and its share of the roofs measured right
// before, medians over the rounds: {"read_roof_gb_per_second",
// "product_roof_gflops", "copied_bytes", "ops"}. Runs on any backend; made
// for GPUs.
Result<nlohmann::ordered_json> MeasureDeviceOps(
    Backend& backend, const Model& model, const DeviceOpsOptions& options);

// As text: what stands above the rows, one of them, and what is said of the
// report in the end.
std::string DeviceOpsHeader();
std::string DeviceOpsLine(const nlohmann::ordered_json& row);
std::string DeviceOpsRoofs(const nlohmann::ordered_json& report);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_DEVICE_OPS_H_
