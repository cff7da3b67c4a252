// A folder that holds one preallocated file of blocks, and small files beside
// it: what stands between those who keep bytes on disk and the disk.
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

// Offsets, sizes and addresses of transfers are multiples of this: what direct
// I/O asks for on every disk in use.
inline constexpr int64_t kBlockBytes = 4096;

// Memory for transfers: begins at a multiple of kBlockBytes. Large memory has
// huge pages where the system grants them: a disk is asked in as few pieces as
// memory is cut into, and an emulated one read at up to twice the rate.
struct BlockDeleter {
  void operator()(std::byte* bytes) const;
};
using BlockBuffer = std::unique_ptr<std::byte[], BlockDeleter>;
// REQUIRES: num_bytes is a positive multiple of kBlockBytes.
BlockBuffer AllocateBlocks(int64_t num_bytes);

// Bytes between memory and the file of blocks, under way at `offset`.
struct BlockTransfer {
  enum class Kind : uint8_t { kRead, kWrite };
  uint64_t tag = 0;  // the caller's name for it
  Kind kind = Kind::kRead;
  int64_t offset = 0;
  std::span<std::byte> bytes;  // a write leaves them as they are
};

struct BlockCompletion {
  uint64_t tag = 0;
  int64_t num_bytes = 0;  // moved; may be fewer than asked for
  int error = 0;          // of errno, or 0
};

// Used by one thread at a time. Whatever fails says so as a value. What a
// process wrote and saw completed survives its death; the machine's death may
// undo or tear any of it: what lies here is to be checked by who reads it.
class BlockFolder {
 public:
  virtual ~BlockFolder() = default;

  // For messages.
  virtual std::string path() const = 0;

  // A small file beside the blocks, whole; kNotFound where there is none.
  virtual Result<std::string> ReadSmall(std::string_view name) = 0;
  // Replaces it: after a failure or a crash the old one, the new one, or an
  // empty file stands there.
  virtual Status WriteSmall(std::string_view name,
                            std::string_view content) = 0;

  // How long the file of blocks is.
  virtual Result<int64_t> num_bytes() const = 0;
  // Makes the file of blocks so long, all of it allocated on the disk: what is
  // new reads as zeros, what is beyond is gone.
  // REQUIRES: num_bytes is a multiple of kBlockBytes; no transfer is under way.
  virtual Status Resize(int64_t num_bytes) = 0;

  // How many transfers may be under way at once.
  virtual int max_transfers() const = 0;
  // Begins transfers, in no order. REQUIRES: their bytes live until they are
  // collected, lie within the file, and are blocks; there is room for them.
  virtual void Submit(std::span<const BlockTransfer> transfers) = 0;
  // Fills `completions` from the front with transfers that have ended, and
  // returns how many. With `wait`, at least one if any is under way.
  virtual size_t Collect(std::span<BlockCompletion> completions, bool wait) = 0;
};

}  // namespace winnow

#endif  // WINNOW_BASE_BLOCK_FOLDER_H_
