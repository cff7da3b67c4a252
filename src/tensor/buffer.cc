#include "tensor/buffer.h"

#include <sys/mman.h>

#include <utility>

namespace winnow {
namespace {

// What is no larger is there at once. What steps work in is used here and there
// by each of them: touched by use alone, memory grows for hours.
constexpr size_t kMaxTouchedBytes = size_t{8} << 20;

}  // namespace

// Maps anonymous memory: zeroed by the kernel, lazily, so that a pool of
// gigabytes costs nothing until its pages are written, and large pages where it
// grants them.
Result<Buffer> Buffer::AllocateHost(size_t num_bytes,
                                    std::string_view purpose) {
  if (num_bytes == 0) return Buffer();
  void* data = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "{}: cannot allocate {} bytes of host memory", purpose,
                     num_bytes);
  }
  constexpr size_t kHugePageBytes = size_t{2} << 20;
  if (num_bytes >= kHugePageBytes) madvise(data, num_bytes, MADV_HUGEPAGE);
  // Kernels before 5.14 do not know it, and touch it all by use.
  if (num_bytes <= kMaxTouchedBytes) {
    madvise(data, num_bytes, MADV_POPULATE_WRITE);
  }
  return Buffer(Tier::kHost, static_cast<std::byte*>(data), num_bytes,
                [](std::byte* p, size_t n) { munmap(p, n); });
}

View Buffer::At(size_t offset_bytes, Dtype dtype,
                std::initializer_list<int64_t> shape) const {
  const View view = MakeView(data_ + offset_bytes, dtype, shape);
  const auto view_bytes = static_cast<size_t>(view.num_elements()) *
                          static_cast<size_t>(DtypeBytes(dtype));
  CHECK(offset_bytes + view_bytes <= num_bytes_,
        "offset_bytes={} {} buffer_bytes={}", offset_bytes, ToString(view),
        num_bytes_);
  return view;
}

void Buffer::Swap(Buffer& other) noexcept {
  std::swap(tier_, other.tier_);
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  std::swap(free_, other.free_);
}

}  // namespace winnow
