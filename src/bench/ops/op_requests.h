// OpRequests: requests of the size at which an op is timed, as far as memory
// suffices.
#ifndef WINNOW_BENCH_OPS_OP_REQUESTS_H_
#define WINNOW_BENCH_OPS_OP_REQUESTS_H_

#include <memory>

#include "bench/bench_requests.h"
#include "bench/ops/bench_device_ops.h"

namespace winnow {

// The least number of launches in a recorded run, which share its fixed costs.
inline constexpr int kLeastCalls = 64;
// The batch of decode rows other than 1.
inline constexpr int kDecodeBatch = 16;

// Makes requests of the model's shape. REQUIRES: backend, model and options
// outlive this.
class OpRequests {
 public:
  OpRequests(Backend& backend, const Model& model,
             const DeviceOpsOptions& options)
      : backend_(backend), model_(model), options_(options) {}

  // Without a selector.
  BenchRequests::Shape ShapeOf(int batch, int64_t context) const;

  // With as many layers as a round needs, if memory suffices; with fewer
  // requests if one layer does not fit. `touched_share`: the share of K and V
  // that a call touches.
  Result<std::unique_ptr<BenchRequests>> Make(BenchRequests::Shape shape,
                                              double touched_share,
                                              int least_layers = 1) const;

  // The number of a round's calls; each layer has equally many.
  static int CallsOver(int num_layers);

 private:
  Backend& backend_;
  const Model& model_;
  const DeviceOpsOptions& options_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_OP_REQUESTS_H_
