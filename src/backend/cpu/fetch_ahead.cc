#include "backend/cpu/fetch_ahead.h"

#include <algorithm>

namespace winnow {
namespace {

// How far ahead of what is read: as many lines as a core keeps under way. What
// was dropped there is asked for again at half the way.
constexpr int kFarBytes = 8192;
// Kernels of float32 transpose a page of K before they fetch: two pages ahead.
constexpr int kFarFloat32Halves = 4;

// Where the halves of up to two units lie, in the order in which they are read.
struct HalfList {
  const std::byte* k[2 * kTileHalves];
  const std::byte* v[2 * kTileHalves];
  int half[2 * kTileHalves];
  int count = 0;

  void Add(const TileKeys& keys) {
    for (int i = keys.begin / kHalfTokens; i * kHalfTokens < keys.end; ++i) {
      if (keys.picked &&
          (keys.tokens[i / 2] >> i % 2 * kHalfTokens & 0xffff) == 0) {
        continue;
      }
      half[count] = i;
      k[count] = keys.k[i];
      v[count] = keys.v[i];
      ++count;
    }
  }
};

}  // namespace

void FetchAhead(const TileKeys& next, int element_bytes, TileKeys& keys) {
  HalfList halves;
  halves.Add(keys);
  const int num_halves = halves.count;
  halves.Add(next);
  const auto set = [&](const std::byte* const* from, int stride,
                       HalvesAhead* to) {
    const int half_bytes = kHalfTokens * stride * element_bytes;
    const int wanted = element_bytes == 4 ? kFarFloat32Halves
                                          : kFarBytes / std::max(half_bytes, 1);
    const int far = std::clamp(wanted, 1, num_halves);
    const int near = (far + 1) / 2;
    for (int i = 0; i < num_halves && i + near < halves.count; ++i) {
      to[halves.half[i]] = {from[std::min(i + far, halves.count - 1)],
                            from[i + near]};
    }
  };
  if (num_halves == 0) return;
  set(halves.k, keys.k_stride, keys.ahead_k);
  set(halves.v, keys.v_stride, keys.ahead_v);
}

}  // namespace winnow
