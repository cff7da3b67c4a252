#include "backend/cpu/packed_keys.h"

#include <bit>
#include <cstring>

#include "backend/cpu/fetch_row.h"

namespace winnow {
namespace {

// Packed, a unit has at most half the halves that it had.
constexpr int kMostHalves = kTileHalves / 2;
constexpr int kMostTokens = kMostHalves * kHalfTokens;

int HalvesFor(int num_tokens) {
  return (num_tokens + kHalfTokens - 1) / kHalfTokens;
}

// Calls f(k, v) for each token that is picked, ascending: where its key and its
// value are.
template <typename F>
void ForEachPicked(const TileKeys& unit, int64_t k_bytes, int64_t v_bytes,
                   F&& f) {
  for (int half = 0; half < kTileHalves; ++half) {
    const int first = half * kHalfTokens;
    uint32_t tokens =
        unit.tokens[first / kTilePageTokens] >> (first % kTilePageTokens) &
        0xffff;
    for (; tokens != 0; tokens &= tokens - 1) {
      const int token = std::countr_zero(tokens);
      f(unit.k[half] + token * k_bytes, unit.v[half] + token * v_bytes);
    }
  }
}

}  // namespace

PackedKeys::PackedKeys(const Shape& shape, ScratchCutter& scratch)
    : k_bytes_(shape.k_stride * shape.element_bytes),
      v_bytes_(shape.v_stride * shape.element_bytes),
      k_(scratch.Take<std::byte>(kMostTokens * k_bytes_)),
      v_(v_bytes_ == 0 ? k_ : scratch.Take<std::byte>(kMostTokens * v_bytes_)) {
}

bool PackedKeys::AreScattered(const uint32_t (&tokens)[kTilePages]) {
  int num_halves = 0, num_tokens = 0;
  for (const uint32_t of_page : tokens) {
    num_halves += (of_page & 0xffff) != 0 ? 1 : 0;
    num_halves += of_page >> kHalfTokens != 0 ? 1 : 0;
    num_tokens += std::popcount(of_page);
  }
  const int num_packed = HalvesFor(num_tokens);
  // Of a run of tokens only the first half and the last one can become one.
  return num_halves >= num_packed + 2 && num_halves >= 2 * num_packed;
}

bool PackedKeys::Find(const TileKeys& unit, TileKeys& packed) const {
  if (!unit.picked || !AreScattered(unit.tokens)) return false;
  int num_tokens = 0;
  for (const uint32_t of_page : unit.tokens) {
    num_tokens += std::popcount(of_page);
  }
  packed = unit;
  packed.begin = 0;
  packed.end = num_tokens;
  for (int page = 0; page < kTilePages; ++page) {
    const int left = num_tokens - page * kTilePageTokens;
    packed.tokens[page] = left <= 0 ? 0
                          : left < kTilePageTokens
                              ? ~uint32_t{0} >> (kTilePageTokens - left)
                              : ~uint32_t{0};
  }
  for (int half = 0; half < HalvesFor(num_tokens); ++half) {
    packed.k[half] = k_ + half * kHalfTokens * k_bytes_;
    packed.v[half] =
        v_bytes_ == 0 ? packed.k[half] : v_ + half * kHalfTokens * v_bytes_;
  }
  ForEachPicked(unit, k_bytes_, v_bytes_,
                [&](const std::byte* k, const std::byte* v) {
                  FetchRow<kFirstLevel>(k, k_bytes_);
                  FetchRow<kFirstLevel>(v, v_bytes_);
                });
  return true;
}

void PackedKeys::Pack(const TileKeys& unit) const {
  std::byte* to_k = k_;
  std::byte* to_v = v_;
  ForEachPicked(unit, k_bytes_, v_bytes_,
                [&](const std::byte* k, const std::byte* v) {
                  std::memcpy(to_k, k, static_cast<size_t>(k_bytes_));
                  to_k += k_bytes_;
                  if (v_bytes_ == 0) return;
                  std::memcpy(to_v, v, static_cast<size_t>(v_bytes_));
                  to_v += v_bytes_;
                });
}

}  // namespace winnow
