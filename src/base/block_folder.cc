#include "base/block_folder.h"

#include <sys/mman.h>

#include <cstdlib>

namespace winnow {

void BlockDeleter::operator()(std::byte* bytes) const { std::free(bytes); }

BlockBuffer AllocateBlocks(int64_t num_bytes) {
  CHECK(num_bytes > 0 && num_bytes % kBlockBytes == 0, "num_bytes={}",
        num_bytes);
  const auto size = static_cast<size_t>(num_bytes);
  constexpr size_t kHugePageBytes = size_t{2} << 20;
  const bool is_huge = size >= kHugePageBytes;
  void* bytes = nullptr;
  const int failed = posix_memalign(
      &bytes, is_huge ? kHugePageBytes : size_t{kBlockBytes}, size);
  CHECK(failed == 0, "no memory for {} bytes", num_bytes);
  if (is_huge) {
    madvise(bytes, size / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  }
  return BlockBuffer(static_cast<std::byte*>(bytes));
}

}  // namespace winnow
