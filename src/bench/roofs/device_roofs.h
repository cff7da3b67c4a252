// DeviceRoofs: a device's limits by its own clock, in the same run as the
// measurements; and the time of work there.
#ifndef WINNOW_BENCH_ROOFS_DEVICE_ROOFS_H_
#define WINNOW_BENCH_ROOFS_DEVICE_ROOFS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "bench/ops/bench_layer_products.h"
#include "bench/roofs/bench_memory.h"

namespace winnow {

// Device seconds of the ops that `enqueue` enqueues, without waits for the
// host: recorded once under `name`, and replayed. REQUIRES: a name always
// stands for the same work.
Result<double> RecordedSeconds(Backend& backend, Queue& queue,
                               std::string_view name,
                               const std::function<void()>& enqueue);

// The same, unrecorded, for work that takes far longer than its launches.
Result<double> EnqueuedSeconds(Backend& backend, Queue& queue,
                               const std::function<void()>& enqueue);

// Seconds of an empty launch: with an event behind it, as Profile adds one to
// each, and in a recorded run. The difference is part of every launch's time in
// Profile.
struct EmptyLaunchSeconds {
  double with_event = 0;
  double recorded = 0;
};
Result<EmptyLaunchSeconds> MeasureEmptyLaunch(Backend& backend);

// The two rates with which ops are compared: bytes of a copy on the device,
// read and written, and products of many rows. Owns the memory of both.
class DeviceRoofs {
 public:
  struct Sizes {
    // Of the copy: far above the size of any cache.
    int64_t copied_bytes = int64_t{1} << 30;
    int64_t product_rows = 8192;
  };
  // REQUIRES: backend and model outlive this.
  static Result<std::unique_ptr<DeviceRoofs>> Create(Backend& backend,
                                                     const Model& model,
                                                     const Sizes& sizes);

  // Each measures anew and keeps the best of a few.
  Status MeasureCopy();
  Status MeasureProducts();
  double bytes_per_second() const { return bytes_per_second_; }
  double flops_per_second() const { return flops_per_second_; }

 private:
  explicit DeviceRoofs(Backend& backend)
      : backend_(backend), memory_(backend) {}

  Backend& backend_;
  BenchMemory memory_;
  View from_, to_;  // u8 [copied bytes]
  std::unique_ptr<BenchLayerProducts> products_;
  double bytes_per_second_ = 0;
  double flops_per_second_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_DEVICE_ROOFS_H_
