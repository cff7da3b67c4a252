// winnow bench ops on a GPU: the ops of a decode step and of a prompt at a
// model's shape, by the device's clock.
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
  // Context of decode for a batch of 16, and four times as long for one
  // request. Selectors choose among the latter.
  int64_t decode_context = 32768;
  // Tokens of a prompt. Attention is also measured for half as many and twice
  // as many.
  int64_t prompt_context = 16384;
  int64_t chunk_rows = 2048;  // rows of a prompt's products
  // The least bytes that one round of an op touches, so that no cache holds
  // them.
  int64_t round_bytes = int64_t{512} << 20;
  // Also measures Attend and Select with other memory layouts
  // (docs/decisions/002-memory-layout.md).
  bool layouts = false;
  DeviceRoofs::Sizes roofs;
  // Called with each row as it is measured.
  std::function<Status(const nlohmann::ordered_json& row)> on_row = {};
};

// Measures the rows of the table. A row has an op's microseconds a launch or
// layer, its minimal bytes and flops, and its share of the roofs. Roofs are
// measured right before; values are medians over the rounds. Returns
// {"read_roof_gb_per_second", "product_roof_gflops", "copied_bytes", "ops"}.
// Runs on any backend; made for GPUs.
Result<nlohmann::ordered_json> MeasureDeviceOps(
    Backend& backend, const Model& model, const DeviceOpsOptions& options);

// As text: the table's head, one row, and the summary of the report.
std::string DeviceOpsHeader();
std::string DeviceOpsLine(const nlohmann::ordered_json& row);
std::string DeviceOpsRoofs(const nlohmann::ordered_json& report);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_DEVICE_OPS_H_
