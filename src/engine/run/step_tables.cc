#include "engine/run/step_tables.h"

#include <cstring>

namespace winnow {
namespace {

constexpr size_t kAlignment = 64;

size_t Aligned(size_t num_bytes) {
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Result<StepTables> StepTables::Create(Backend& backend, size_t capacity_bytes) {
  const size_t num_bytes = Aligned(capacity_bytes);
  std::array<Buffer, 2> host;
  for (Buffer& each : host) {
    ASSIGN_OR_RETURN(
        each, backend.Allocate(Tier::kHost, num_bytes, "step tables, host"));
  }
  ASSIGN_OR_RETURN(Buffer device,
                   backend.Allocate(Tier::kDevice, num_bytes, "step tables"));
  return StepTables(backend, std::move(host), std::move(device));
}

void StepTables::Clear() {
  used_bytes_ = flushed_bytes_ = 0;
  turn_ = (turn_ + 1) % host_.size();
}

View StepTables::PutBytes(const void* data, size_t num_bytes, Dtype dtype,
                          std::initializer_list<int64_t> shape) {
  CHECK(num_bytes <= free_bytes(), "num_bytes={} free_bytes={}", num_bytes,
        free_bytes());
  if (num_bytes > 0) {
    std::memcpy(host_[turn_].data() + used_bytes_, data, num_bytes);
  }
  const View view = device_.At(used_bytes_, dtype, shape);
  CHECK(static_cast<size_t>(view.num_bytes()) == num_bytes, "{} for {} bytes",
        ToString(view), num_bytes);
  used_bytes_ = std::min(Aligned(used_bytes_ + num_bytes), device_.num_bytes());
  return view;
}

void StepTables::Flush(Queue& queue) {
  const size_t num_bytes = used_bytes_ - flushed_bytes_;
  if (num_bytes == 0) return;
  const auto size = static_cast<int64_t>(num_bytes);
  backend_->Copy(queue, host_[turn_].At(flushed_bytes_, Dtype::kUInt8, {size}),
                 device_.At(flushed_bytes_, Dtype::kUInt8, {size}));
  flushed_bytes_ = used_bytes_;
}

}  // namespace winnow
