// Rows of a table of ops: what each takes on a device beside its roofs.
#ifndef WINNOW_BENCH_OPS_DEVICE_OP_ROWS_H_
#define WINNOW_BENCH_OPS_DEVICE_OP_ROWS_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "bench/roofs/device_roofs.h"

namespace winnow {

// An op, called so often a run, each call with `bytes` to move and `flops` to
// compute at least.
struct DeviceOp {
  std::string name;
  double bytes = 0;
  double flops = 0;
  bool product_bound = false;
  int calls = 1;
  // Long ones are enqueued as they are, as the engine does prompts.
  bool recorded = true;
  Queue* queue = nullptr;
  std::function<void(int call)> run;
};

// Measures ops, and keeps a row of each.
class DeviceOpRows {
 public:
  using OnRow = std::function<Status(const nlohmann::ordered_json& row)>;

  // `on_row`, where there is one, is called with each row as it comes.
  // REQUIRES: backend and roofs outlive this.
  DeviceOpRows(Backend& backend, DeviceRoofs& roofs, int rounds, OnRow on_row)
      : backend_(backend),
        roofs_(roofs),
        rounds_(rounds),
        on_row_(std::move(on_row)) {}

  int rounds() const { return rounds_; }

  // A call of the op, median over the rounds; shares are of each round's own
  // roofs.
  Status Add(const DeviceOp& op);
  // Where a call is several launches: two rows for each of them, as it takes
  // alone with the event behind it, and without: less what an event adds to a
  // launch that does next to nothing, so as it takes in a recorded run. What
  // the op moves is moved by the one that scores.
  Status AddLaunches(const DeviceOp& op);
  // What was measured otherwise.
  Status AddSeconds(const DeviceOp& op, double seconds);

  nlohmann::ordered_json Take() { return std::move(rows_); }

 private:
  Status Keep(nlohmann::ordered_json row);

  Backend& backend_;
  DeviceRoofs& roofs_;
  const int rounds_;
  const OnRow on_row_;
  std::optional<EmptyLaunchSeconds> empty_;  // once it was asked for
  int num_recorded_ = 0;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_DEVICE_OP_ROWS_H_
