#include "backend/cpu/fetch_ahead.h"

#include <algorithm>

namespace winnow {
namespace {

// Far enough for memory to answer, near enough that what was fetched is still
// in the cache when its turn comes.
constexpr int kHalvesAhead = 4;

// Where the halves of up to two units lie, in the order in which they are read.
struct HalfList {
  const std::byte* k[2 * kTileHalves];
  const std::byte* v[2 * kTileHalves];
  int half[2 * kTileHalves];
  int count = 0;

  void Add(const TileKeys& keys, int element_bytes) {
    const int k_bytes = kHalfTokens * keys.k_stride * element_bytes;
    const int v_bytes = kHalfTokens * keys.v_stride * element_bytes;
    for (int i = keys.begin / kHalfTokens; i * kHalfTokens < keys.end; ++i) {
      const int page = i / 2, of_page = i % 2;
      if (keys.picked &&
          (keys.tokens[page] >> of_page * kHalfTokens & 0xffff) == 0) {
        continue;
      }
      half[count] = i;
      k[count] = keys.k[page] + of_page * k_bytes;
      v[count] =
          keys.v[page] == nullptr ? nullptr : keys.v[page] + of_page * v_bytes;
      ++count;
    }
  }
};

}  // namespace

void FetchAhead(const TileKeys& next, int element_bytes, TileKeys& keys) {
  HalfList halves;
  halves.Add(keys, element_bytes);
  const int num_halves = halves.count;
  halves.Add(next, element_bytes);
  const int distance = std::min(kHalvesAhead, num_halves);
  for (int i = 0; i < num_halves && i + distance < halves.count; ++i) {
    keys.next_k[halves.half[i]] = halves.k[i + distance];
    keys.next_v[halves.half[i]] = halves.v[i + distance];
  }
}

}  // namespace winnow
