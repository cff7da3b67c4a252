// DeviceOpRows: rows of a table of ops, each compared with the device's roofs.
#ifndef WINNOW_BENCH_OPS_DEVICE_OP_ROWS_H_
#define WINNOW_BENCH_OPS_DEVICE_OP_ROWS_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "bench/roofs/device_roofs.h"

namespace winnow {

// An op with its number of calls in a run. Each call moves at least `bytes` and
// computes at least `flops`.
struct DeviceOp {
  std::string name;
  double bytes = 0;
  double flops = 0;
  bool product_bound = false;
  int calls = 1;
  // False: long ops are enqueued unrecorded, as the engine does for prompts.
  bool recorded = true;
  Queue* queue = nullptr;
  std::function<void(int call)> run;
};

// Measures ops, and keeps a row of each.
class DeviceOpRows {
 public:
  using OnRow = std::function<Status(const nlohmann::ordered_json& row)>;

  // `on_row`, if set, is called with each row as it is measured. REQUIRES:
  // backend and roofs outlive this.
  DeviceOpRows(Backend& backend, DeviceRoofs& roofs, int rounds, OnRow on_row)
      : backend_(backend),
        roofs_(roofs),
        rounds_(rounds),
        on_row_(std::move(on_row)) {}

  int rounds() const { return rounds_; }

  // Adds the time of one call, the median over the rounds. Shares are of each
  // round's own roofs.
  Status Add(const DeviceOp& op);
  // For a call of several launches, adds two rows for each launch. The first is
  // its time alone with an event behind it. The second is less the time that an
  // event adds to an empty launch, as in a recorded run. The launch that scores
  // is charged with the op's bytes.
  Status AddLaunches(const DeviceOp& op);
  // Adds a time that was measured by other means.
  Status AddSeconds(const DeviceOp& op, double seconds);

  nlohmann::ordered_json Take() { return std::move(rows_); }

 private:
  Status Keep(nlohmann::ordered_json row);

  Backend& backend_;
  DeviceRoofs& roofs_;
  const int rounds_;
  const OnRow on_row_;
  std::optional<EmptyLaunchSeconds> empty_;  // once it was needed
  int num_recorded_ = 0;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_DEVICE_OP_ROWS_H_
