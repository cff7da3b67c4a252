// ContentHash: a hash of all bytes of a file, computed by several threads.
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

// 128 bits. Detects accidents, not forgeries.
struct ContentHash {
  uint64_t high = 0, low = 0;
  friend bool operator==(const ContentHash&, const ContentHash&) = default;
};

// XXH3 (128 bits) of the canonical hashes of pieces of 4 MiB, the last one
// shorter, and of the number of bytes (8 bytes, little-endian). Equal for any
// number of threads. Calls `progress`, which may be empty, on this thread with
// the number of bytes done. Prefetches mapped memory one piece ahead, so that a
// disk reads several pieces at once.
ContentHash HashContent(std::span<const std::byte> bytes, ThreadPool& pool,
                        const std::function<void(int64_t)>& progress);

// 32 hexadecimal digits, and the reverse; nothing if `text` has another form.
std::string HexOf(const ContentHash& hash);
std::optional<ContentHash> HashFromHex(std::string_view text);

}  // namespace winnow

#endif  // WINNOW_BASE_CONTENT_HASH_H_
