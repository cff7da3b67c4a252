// BenchMemory: a device's memory for measurements, filled with tables and
// random numbers from the host.
#ifndef WINNOW_BENCH_ROOFS_BENCH_MEMORY_H_
#define WINNOW_BENCH_ROOFS_BENCH_MEMORY_H_

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace winnow {

// Owns its allocations. REQUIRES: `backend` outlives it.
class BenchMemory {
 public:
  explicit BenchMemory(Backend& backend)
      : backend_(backend), queue_(backend.MakeQueue()) {}

  Backend& backend() const { return backend_; }
  Queue& queue() const { return *queue_; }

  // Zeros.
  Result<View> Take(Dtype dtype, std::initializer_list<int64_t> shape);
  // Uniform numbers in [-1, 1). They repeat every 8 MB or less, at no multiple
  // of a page. REQUIRES: a float type.
  Result<View> TakeRandom(Dtype dtype, std::initializer_list<int64_t> shape);
  Result<View> TakeIntegers(std::span<const int32_t> values);
  Result<View> TakeIndices(std::span<const uint32_t> values,
                           std::initializer_list<int64_t> shape);
  // Rows of `width` entries, one after another.
  Result<RowTable> TakeRows(std::span<const uint32_t> entries, int64_t width);
  Result<View> TakeFloats(std::span<const float> values,
                          std::initializer_list<int64_t> shape);
  Result<View> TakeBytes(std::span<const std::byte> bytes);

  // The bytes on the device, after all enqueued work. REQUIRES: contiguous.
  Result<std::vector<std::byte>> Download(const View& view);

 private:
  Status Upload(std::span<const std::byte> bytes, const View& to);
  Status Wait();

  Backend& backend_;
  std::unique_ptr<Queue> queue_;
  std::vector<Buffer> buffers_;
};

}  // namespace winnow

#endif  // WINNOW_BENCH_ROOFS_BENCH_MEMORY_H_
