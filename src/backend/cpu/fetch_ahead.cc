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

// Of pages whose halves are all read, as of those that follow.
void SetAll(const std::byte* const (&pages)[kTilePages],
            const std::byte* const (&next)[kTilePages], int half_bytes,
            int element_bytes, HalvesAhead (&to)[kTileHalves]) {
  const std::byte* halves[2 * kTileHalves];
  for (int page = 0; page < kTilePages; ++page) {
    for (int i = 0; i < kPageHalves; ++i) {
      halves[page * kPageHalves + i] = pages[page] + i * half_bytes;
      halves[kTileHalves + page * kPageHalves + i] =
          next[page] + i * half_bytes;
    }
  }
  const int far = FarHalves(half_bytes, element_bytes, kTileHalves);
  const int near = (far + 1) / 2;
  for (int i = 0; i < kTileHalves; ++i) {
    to[i] = {halves[i + far], halves[i + near]};
  }
}

// Weights read nothing of memory, which would idle meanwhile: a page of K from
// behind what stands ahead already, and the first one of V again.
void SetBesideWeights(const TileKeys& next, int element_bytes, TileKeys& keys) {
  const int k_bytes = kHalfTokens * keys.k_stride * element_bytes;
  const int v_bytes = kHalfTokens * keys.v_stride * element_bytes;
  const int behind = FarHalves(k_bytes, element_bytes, kTileHalves);
  for (int i = 0; i < kPageHalves; ++i) {
    const int half = std::min(behind + i, kTileHalves - 1);
    keys.ahead_weights[i] = {
        next.k[half / kPageHalves] + half % kPageHalves * k_bytes,
        keys.v[0] + i * v_bytes};
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
  for (HalvesAhead& half : keys.ahead_weights) half = {};
  HalfList halves;
  halves.Add(keys, element_bytes);
  const int num_halves = halves.count;
  halves.Add(next, element_bytes);
  const auto set = [&](const std::byte* const* from, int stride,
                       HalvesAhead* to) {
    const int half_bytes = kHalfTokens * stride * element_bytes;
    const int far = FarHalves(half_bytes, element_bytes, num_halves);
    const int near = (far + 1) / 2;
    for (int i = 0; i < num_halves; ++i) {
      HalvesAhead& of = to[halves.half[i]];
      of = {};
      if (i + near >= halves.count) continue;
      of = {from[std::min(i + far, halves.count - 1)], from[i + near]};
    }
  };
  if (num_halves == 0) return;
  set(halves.k, keys.k_stride, keys.ahead_k);
  set(halves.v, keys.v_stride, keys.ahead_v);
}

}  // namespace winnow
