#include "backend/cpu/fetch_ahead.h"

#include <algorithm>

namespace winnow {
namespace {

// How far ahead of what is read the first cache level is filled: by a page, as
// kernels of float32 transpose one before they fetch.
constexpr int kNearHalves = kPageHalves;

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

bool ReadsAllHalves(const TileKeys& keys) {
  return !keys.picked && keys.begin < kHalfTokens &&
         keys.end > kTileKeys - kHalfTokens;
}

// Of halves that are all read, as are those that follow.
void SetAll(const std::byte* const (&of_keys)[kTileHalves],
            const std::byte* const (&of_next)[kTileHalves],
            HalvesAhead (&to)[kTileHalves]) {
  for (int i = 0; i < kTileHalves; ++i) {
    const int near = i + kNearHalves;
    to[i] = {of_next[i],
             near < kTileHalves ? of_keys[near] : of_next[near - kTileHalves]};
  }
}

}  // namespace

void FetchAhead(const TileKeys& next, TileKeys& keys) {
  if (ReadsAllHalves(keys) && ReadsAllHalves(next)) {
    SetAll(keys.k, next.k, keys.ahead_k);
    if (keys.v[0] == nullptr) return;
    SetAll(keys.v, next.v, keys.ahead_v);
    for (int i = 0; i < kPageHalves; ++i) {
      keys.ahead_weights[i] = {next.v[i], keys.v[i]};
    }
    return;
  }
  std::ranges::fill(keys.ahead_k, HalvesAhead());
  std::ranges::fill(keys.ahead_v, HalvesAhead());
  std::ranges::fill(keys.ahead_weights, HalvesAhead());
  HalfList halves;
  halves.Add(keys);
  const int num_halves = halves.count;
  halves.Add(next);
  for (int i = 0; i < num_halves && i + kNearHalves < halves.count; ++i) {
    const int near = i + kNearHalves;
    const int far = i + num_halves < halves.count ? i + num_halves : near;
    keys.ahead_k[halves.half[i]] = {halves.k[far], halves.k[near]};
    keys.ahead_v[halves.half[i]] = {halves.v[far], halves.v[near]};
  }
  for (int i = 0; i < kPageHalves && num_halves + i < halves.count; ++i) {
    keys.ahead_weights[i] = {halves.v[num_halves + i], halves.v[i]};
  }
}

}  // namespace winnow
