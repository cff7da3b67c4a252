// A hash of all bytes of a file, made by several threads.
#ifndef WINNOW_BASE_CONTENT_HASH_H_
#define WINNOW_BASE_CONTENT_HASH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_pool.h"

namespace winnow {

// 128 bits. Tells accidents apart, not forgeries.
struct ContentHash {
  uint64_t high = 0, low = 0;
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
};

// XXH3 (128 bits) of the canonical hashes of pieces of 4 MiB, the last one
// shorter, and the number of bytes (8 bytes, little-endian). The same for any
// number of threads. `progress`, which may be none, hears on this thread how
// many bytes are done. What is mapped is asked for a piece ahead of its
// reading, so that a disk has several pieces to bring at once.
ContentHash HashContent(std::span<const std::byte> bytes, ThreadPool& pool,
                        const std::function<void(int64_t)>& progress);

// 32 hexadecimal digits, and back; nothing where it is no such text.
std::string HexOf(const ContentHash& hash);
std::optional<ContentHash> HashFromHex(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_BASE_CONTENT_HASH_H_
