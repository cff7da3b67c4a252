// The small tables of a step, gathered on the host and copied to the device.
#ifndef WINNOW_ENGINE_RUN_STEP_TABLES_H_
#define WINNOW_ENGINE_RUN_STEP_TABLES_H_

#include <array>
#include <span>

#include "backend/backend.h"

namespace winnow {

// Owns two host buffers, which take turns, and their one twin on the device:
// there the queue keeps steps apart. Within a step, Put places an array and
// returns its view on the device; Flush enqueues the copy of what has been put
// since the last Flush. Clear begins the next step. REQUIRES of Clear: what was
// enqueued up to the call before the last has passed.
class StepTables {
 public:
  static Result<StepTables> Create(Backend& backend, size_t capacity_bytes);

  void Clear();

  // Copies `values` in. The view is true on the device after the next Flush.
  template <typename T>
  View Put(std::span<const T> values, std::initializer_list<int64_t> shape) {
    return PutBytes(values.data(), values.size() * sizeof(T), kDtypeOf<T>,
                    shape);
  }
  // The same for plain structs, as an address on the device.
  template <typename T>
  const T* PutStructs(std::span<const T> values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    const View view = PutBytes(values.data(), values.size() * sizeof(T),
                               Dtype::kUInt8, {bytes});
    return reinterpret_cast<const T*>(view.data);
  }
  void Flush(Queue& queue);

  size_t free_bytes() const { return device_.num_bytes() - used_bytes_; }

 private:
  StepTables(Backend& backend, std::array<Buffer, 2> host, Buffer device)
      : backend_(&backend),
        host_(std::move(host)),
        device_(std::move(device)) {}
  View PutBytes(const void* data, size_t num_bytes, Dtype dtype,
                std::initializer_list<int64_t> shape);

  Backend* backend_;
  std::array<Buffer, 2> host_;
  size_t turn_ = 0;  // which of them the step fills
  Buffer device_;
  size_t used_bytes_ = 0;
  size_t flushed_bytes_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_STEP_TABLES_H_
