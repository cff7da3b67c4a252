// AddSelectorOps: winnow bench ops on a GPU, for selectors that keep more than
// summaries of keys.
#ifndef WINNOW_BENCH_OPS_BENCH_SELECTOR_OPS_H_
#define WINNOW_BENCH_OPS_BENCH_SELECTOR_OPS_H_

#include "bench/ops/bench_device_ops.h"
#include "bench/ops/device_op_rows.h"

namespace winnow {

// Adds rows of learned gates, clusters with their estimates, fixed choices, and
// next ranks, at four times options.decode_context.
Status AddSelectorOps(Backend& backend, const Model& model,
                      const DeviceOpsOptions& options, DeviceOpRows& rows);

}  // namespace winnow

#endif  // WINNOW_BENCH_OPS_BENCH_SELECTOR_OPS_H_
