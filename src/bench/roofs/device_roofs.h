// What a device can do at most, by its own clock, in the run that it is
// compared with; and what work takes there.
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

// Seconds on the device of what `enqueue` enqueues, each op right behind the
// other, the host not waited for: recorded once under `name`, and replayed.
// REQUIRES: what stands behind a name is always the same.
Result<double> RecordedSeconds(Backend& backend, Queue& queue,
                               std::string_view name,
                               const std::function<void()>& enqueue);

// The same of work that takes far longer than its launches: not recorded.
Result<double> EnqueuedSeconds(Backend& backend, Queue& queue,
                               const std::function<void()>& enqueue);

// Of launches that do next to nothing, the seconds that one takes: with an
// event behind it, as Profile puts one behind each, and in a recorded run. What
// the first has on top is in every launch's time that Profile tells.
struct EmptyLaunchSeconds {
  double with_event = 0;
  double recorded = 0;
};
Result<EmptyLaunchSeconds> MeasureEmptyLaunch(Backend& backend);

// The two rates that ops are held against: bytes that a copy on the device
// reads and writes, both counted, and products of many rows. Owns what they
// are measured on.
class DeviceRoofs {
 public:
  struct Sizes {
    // Of the copy: far more than any cache of the device.
    int64_t copied_bytes = int64_t{1} << 30;
    int64_t product_rows = 8192;
  };
  // REQUIRES: backend and model outlive this.
  static Result<std::unique_ptr<DeviceRoofs>> Create(Backend& backend,
                                                     const Model& model,
                                                     const Sizes& sizes);

  // Each measures anew: the best of a few.
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
