// BlockFolder: a folder with one preallocated file of blocks and small files
// beside it. Stores that keep bytes on disk use nothing else.
#ifndef WINNOW_BASE_BLOCK_FOLDER_H_
#define WINNOW_BASE_BLOCK_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace winnow {

// Offsets, sizes and addresses of transfers are multiples of this. Direct I/O
// requires it on every disk in use.
inline constexpr int64_t kBlockBytes = 4096;

// Memory for transfers, aligned to kBlockBytes. Large memory gets huge pages if
// the system grants them. A disk request is split where the memory is not
// contiguous, and an emulated disk reads whole requests at up to twice the
// rate.
struct BlockDeleter {
  void operator()(std::byte* bytes) const;
};
using BlockBuffer = std::unique_ptr<std::byte[], BlockDeleter>;
// REQUIRES: num_bytes is a positive multiple of kBlockBytes.
BlockBuffer AllocateBlocks(int64_t num_bytes);

// A transfer between memory and the file of blocks at `offset`.
struct BlockTransfer {
  enum class Kind : uint8_t { kRead, kWrite };
  uint64_t tag = 0;  // the caller's name for it
  Kind kind = Kind::kRead;
  int64_t offset = 0;
  std::span<std::byte> bytes;  // a write does not change them
};

struct BlockCompletion {
  uint64_t tag = 0;
  int64_t num_bytes = 0;  // transferred; may be fewer than requested
  int error = 0;          // an errno value, or 0
};

// Used by one thread at a time. Failures are values. Completed writes survive
// the death of the process. The death of the machine may undo or tear any
// write, so readers must check the content.
class BlockFolder {
 public:
  virtual ~BlockFolder() = default;

  // For messages.
  virtual std::string path() const = 0;

  // Reads a small file beside the blocks, whole. Fails with kNotFound if there
  // is none.
  virtual Result<std::string> ReadSmall(std::string_view name) = 0;
  // Replaces a small file. After a failure or a crash the old content, the new
  // content or an empty file is there.
  virtual Status WriteSmall(std::string_view name,
                            std::string_view content) = 0;

  // The length of the file of blocks.
  virtual Result<int64_t> num_bytes() const = 0;
  // Sets the length of the file of blocks and allocates all of it on the disk.
  // New bytes read as zeros. REQUIRES: num_bytes is a multiple of kBlockBytes;
  // no transfer is in flight.
  virtual Status Resize(int64_t num_bytes) = 0;

  // The greatest number of transfers in flight.
  virtual int max_transfers() const = 0;
  // Begins transfers, in no order. REQUIRES: their bytes are whole blocks
  // within the file and live until Collect returns them; at most
  // max_transfers() are in flight.
  virtual void Submit(std::span<const BlockTransfer> transfers) = 0;
  // Fills `completions` from the front with ended transfers and returns their
  // number. With `wait`, waits for at least one if any is in flight.
  virtual size_t Collect(std::span<BlockCompletion> completions, bool wait) = 0;
};

}  // namespace winnow

#endif  // WINNOW_BASE_BLOCK_FOLDER_H_
