#include "base/block_folder.h"

#include <cstdlib>

namespace winnow {

void BlockDeleter::operator()(std::byte* bytes) const { std::free(bytes); }

BlockBuffer AllocateBlocks(int64_t num_bytes) {
  CHECK(num_bytes > 0 && num_bytes % kBlockBytes == 0, "num_bytes={}",
        num_bytes);
  void* bytes = std::aligned_alloc(kBlockBytes, static_cast<size_t>(num_bytes));
  CHECK(bytes != nullptr, "no memory for {} bytes", num_bytes);
  return BlockBuffer(static_cast<std::byte*>(bytes));
}

}  // namespace winnow
