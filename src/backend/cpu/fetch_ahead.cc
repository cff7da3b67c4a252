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

// How many halves ahead, of halves of so many bytes.
int FarHalves(int half_bytes, int element_bytes, int most) {
  const int wanted = element_bytes == 4 ? kFarFloat32Halves
                                        : kFarBytes / std::max(half_bytes, 1);
  return std::clamp(wanted, 1, most);
}

bool ReadsAllHalves(const TileKeys& keys) {
  return !keys.picked && keys.begin < kHalfTokens &&
         keys.end > kTileKeys - kHalfTokens;
}

// Of halves that are all read, as are those that follow.
void SetAll(const std::byte* const (&of_keys)[kTileHalves],
            const std::byte* const (&of_next)[kTileHalves], int half_bytes,
            int element_bytes, HalvesAhead (&to)[kTileHalves]) {
  const std::byte* halves[2 * kTileHalves];
  std::ranges::copy(of_keys, halves);
  std::ranges::copy(of_next, halves + kTileHalves);
  const int far = FarHalves(half_bytes, element_bytes, kTileHalves);
  const int near = (far + 1) / 2;
  for (int i = 0; i < kTileHalves; ++i) {
    to[i] = {halves[i + far], halves[i + near]};
  }
}

// Weights read nothing of memory, which would idle meanwhile: a page of K from
// behind what stands ahead already, and the first one of V again.
void SetBesideWeights(const TileKeys& next, int element_bytes, TileKeys& keys) {
  const int behind = FarHalves(kHalfTokens * keys.k_stride * element_bytes,
                               element_bytes, kTileHalves);
  for (int i = 0; i < kPageHalves; ++i) {
    keys.ahead_weights[i] = {next.k[std::min(behind + i, kTileHalves - 1)],
                             keys.v[i]};
  }
}

}  // namespace

void FetchAhead(const TileKeys& next, int element_bytes, TileKeys& keys) {
  if (ReadsAllHalves(keys) && ReadsAllHalves(next)) {
    SetAll(keys.k, next.k, kHalfTokens * keys.k_stride * element_bytes,
           element_bytes, keys.ahead_k);
    if (keys.v[0] == nullptr) return;
    SetAll(keys.v, next.v, kHalfTokens * keys.v_stride * element_bytes,
           element_bytes, keys.ahead_v);
    return SetBesideWeights(next, element_bytes, keys);
  }
  std::ranges::fill(keys.ahead_k, HalvesAhead());
  std::ranges::fill(keys.ahead_v, HalvesAhead());
  std::ranges::fill(keys.ahead_weights, HalvesAhead());
  HalfList halves;
  halves.Add(keys);
  const int num_halves = halves.count;
  halves.Add(next);
  const auto set = [&](const std::byte* const* from, int stride,
                       HalvesAhead* to) {
    const int half_bytes = kHalfTokens * stride * element_bytes;
    const int far = FarHalves(half_bytes, element_bytes, num_halves);
    const int near = (far + 1) / 2;
    for (int i = 0; i < num_halves; ++i) {
      if (i + near >= halves.count) continue;
      to[halves.half[i]] = {from[std::min(i + far, halves.count - 1)],
                            from[i + near]};
    }
  };
  if (num_halves == 0) return;
  set(halves.k, keys.k_stride, keys.ahead_k);
  set(halves.v, keys.v_stride, keys.ahead_v);
}

}  // namespace winnow
