#include "base/content_hash.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace winnow {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr size_t kMemoryPageBytes = 4096;
// Between two words of progress.
constexpr size_t kPiecesATime = 64;

static_assert(std::endian::native == std::endian::little);

// Advice: where it is not taken, the bytes come as they are read.
void AskFor(std::span<const std::byte> piece) {
  const auto address = reinterpret_cast<uintptr_t>(piece.data());
  const uintptr_t begin = address / kMemoryPageBytes * kMemoryPageBytes;
  madvise(reinterpret_cast<void*>(begin), address + piece.size() - begin,
          MADV_WILLNEED);
}

}  // namespace

ContentHash HashContent(std::span<const std::byte> bytes, ThreadPool& pool,
                        const std::function<void(int64_t)>& progress) {
  const size_t num_pieces = (bytes.size() + kPieceBytes - 1) / kPieceBytes;
  std::vector<XXH128_canonical_t> pieces(num_pieces);
  for (size_t first = 0; first < num_pieces; first += kPiecesATime) {
    const size_t count = std::min(kPiecesATime, num_pieces - first);
    pool.ParallelFor(static_cast<int64_t>(count), [&](int64_t item, int) {
      const size_t number = first + static_cast<size_t>(item);
      const size_t begin = number * kPieceBytes;
      const auto piece =
          bytes.subspan(begin, std::min(kPieceBytes, bytes.size() - begin));
      AskFor(piece);
      XXH128_canonicalFromHash(&pieces[number],
                               XXH3_128bits(piece.data(), piece.size()));
    });
    if (progress) {
      progress(static_cast<int64_t>(
          std::min(bytes.size(), (first + count) * kPieceBytes)));
    }
  }
  const uint64_t num_bytes = bytes.size();
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, pieces.data(),
                      pieces.size() * sizeof(XXH128_canonical_t));
  XXH3_128bits_update(&state, &num_bytes, sizeof(num_bytes));
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {.high = hash.high64, .low = hash.low64};
}

std::string HexOf(const ContentHash& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

std::optional<ContentHash> HashFromHex(std::string_view text) {
  constexpr size_t kDigits = 16;
  if (text.size() != 2 * kDigits) return std::nullopt;
  ContentHash hash;
  for (uint64_t* half : {&hash.high, &hash.low}) {
    const char* end = text.data() + kDigits;
    const auto parsed = std::from_chars(text.data(), end, *half, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    text.remove_prefix(kDigits);
  }
  return hash;
}

}  // namespace winnow
