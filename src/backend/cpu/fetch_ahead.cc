#include "backend/cpu/fetch_ahead.h"

#include <algorithm>

namespace winnow {
namespace {

// How far ahead of what is read it is fetched from near: by a page, as kernels
// of float32 transpose one before they fetch.
constexpr int kNearHalves = kPageHalves;

bool Reads(const TileKeys& keys, int half) {
  const int first = half * kHalfTokens;
  if (first + kHalfTokens <= keys.begin || first >= keys.end) return false;
  return !keys.picked ||
         (keys.tokens[half / kPageHalves] >> half % kPageHalves * kHalfTokens &
          0xffff) != 0;
}

bool ReadsAll(const TileKeys& keys) {
  return !keys.picked && keys.begin < kHalfTokens &&
         keys.end > kTileKeys - kHalfTokens;
}

// Where V is read apart from K.
bool HasValues(const TileKeys& keys) {
  return keys.v[0] != nullptr && keys.v[0] != keys.k[0];
}

// The halves of two units in the order in which they are read.
class HalvesInTurn {
 public:
  void Add(const TileKeys& keys) {
    for (int i = 0; i < kTileHalves; ++i) {
      if (Reads(keys, i)) halves_[count_++] = keys.k[i];
    }
    if (keys.v[0] == nullptr) return;
    for (int i = 0; i < kTileHalves; ++i) {
      if (Reads(keys, i)) halves_[count_++] = keys.v[i];
    }
  }
  const std::byte* At(int index) const {
    return index < count_ ? halves_[index] : nullptr;
  }

 private:
  const std::byte* halves_[4 * kTileHalves];
  int count_ = 0;
};

// Of units that are read whole, as most are.
void FetchBesideAll(const std::byte* const* far, const TileKeys& next,
                    TileKeys& keys) {
  const std::byte* in_turn[2 * kTileHalves + kNearHalves];
  std::copy_n(keys.k, kTileHalves, in_turn);
  std::copy_n(keys.v, kTileHalves, in_turn + kTileHalves);
  std::copy_n(next.k, kNearHalves, in_turn + 2 * kTileHalves);
  const auto set = [&](int first, HalvesAhead(&to)[kTileHalves]) {
    for (int i = 0; i < kTileHalves; ++i) {
      for (int j = 0; j < kFarHalves; ++j) {
        to[i].far[j] = far[HalvesInMemory::kBefore + first + i - j];
      }
      to[i].near = in_turn[first + i + kNearHalves];
    }
  };
  set(0, keys.ahead_k);
  set(kTileHalves, keys.ahead_v);
}

}  // namespace

void HalvesInMemory::Assign(std::span<const TileKeys> units) {
  std::copy_n(halves_.begin() + count_, kBefore, halves_.begin());
  count_ = 0;
  const auto add = [&](const std::byte* half) {
    halves_[static_cast<size_t>(kBefore + count_++)] = half;
  };
  for (int first = 0; first < kTileHalves; first += kPageHalves) {
    for (const TileKeys& keys : units) {
      for (int i = first; i < first + kPageHalves; ++i) {
        if (Reads(keys, i)) add(keys.k[i]);
      }
      if (!HasValues(keys)) continue;
      for (int i = first; i < first + kPageHalves; ++i) {
        if (Reads(keys, i)) add(keys.v[i]);
      }
    }
  }
}

void FetchAhead(std::span<const std::byte* const> far, const TileKeys& next,
                TileKeys& keys) {
  if (far.size() == HalvesInMemory::kBefore + 2 * kTileHalves &&
      keys.v[0] != nullptr && ReadsAll(keys) && ReadsAll(next)) {
    return FetchBesideAll(far.data(), next, keys);
  }
  HalvesInTurn halves;
  halves.Add(keys);
  halves.Add(next);
  int index = 0;
  const auto set = [&](int half, HalvesAhead& ahead) {
    if (!Reads(keys, half)) {
      ahead = {};
      return;
    }
    for (int j = 0; j < kFarHalves; ++j) {
      const auto at = static_cast<size_t>(HalvesInMemory::kBefore + index - j);
      ahead.far[j] = at < far.size() ? far[at] : nullptr;
    }
    ahead.near = halves.At(index + kNearHalves);
    ++index;
  };
  for (int i = 0; i < kTileHalves; ++i) set(i, keys.ahead_k[i]);
  if (keys.v[0] == nullptr) return;
  for (int i = 0; i < kTileHalves; ++i) set(i, keys.ahead_v[i]);
}

}  // namespace winnow
