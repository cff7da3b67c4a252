#include "backend/cpu/select/packed_keys.h"

#include <algorithm>
#include <cstring>

#include "backend/contract/token_runs.h"
#include "backend/cpu/isa/count_bits.h"

namespace winnow {

PackedKeys::PackedKeys(const Shape& shape, ScratchCutter& scratch)
    : k_bytes_(shape.k_stride * shape.element_bytes),
      v_bytes_(shape.v_stride * shape.element_bytes),
      k_(scratch.Take<std::byte>(kTileKeys * k_bytes_)),
      v_(v_bytes_ == 0 ? k_ : scratch.Take<std::byte>(kTileKeys * v_bytes_)) {}

int PackedKeys::NumTogether(std::span<const Pick> picks) {
  const int count = static_cast<int>(std::min<size_t>(picks.size(), kMaxPicks));
  int num_tokens = 0, num_halves = 0, together = 0;
  for (int i = 0; i < count;) {
    const uint32_t tokens = picks[static_cast<size_t>(i)].tokens;
    num_tokens += CountBits(tokens);
    num_halves += (tokens & 0xffff) != 0 ? 1 : 0;
    num_halves += tokens >> kHalfTokens != 0 ? 1 : 0;
    if (++i % kUnitPicks != 0 && i < count) continue;
    const int num_packed = (num_tokens + kHalfTokens - 1) / kHalfTokens;
    if (num_tokens > kTileKeys || num_halves < num_packed + 2 ||
        2 * num_halves < 3 * num_packed) {
      break;
    }
    together = i;
  }
  return together;
}

int PackedKeys::CountTokens(const TileKeys& tile) {
  int count = 0;
  for (const uint32_t of_page : tile.tokens) count += CountBits(of_page);
  return count;
}

int PackedKeys::Add(const TileKeys& tile, int num_tokens) const {
  for (int half = 0; half < kTileHalves; ++half) {
    const int first_key = half * kHalfTokens;
    const uint32_t tokens = tile.tokens[first_key / kTilePageTokens] >>
                                (first_key % kTilePageTokens) &
                            0xffff;
    ForEachRun(tokens, [&](int first, int count) {
      CHECK(num_tokens + count <= kTileKeys, "tokens={} and {}", num_tokens,
            count);
      std::memcpy(k_ + num_tokens * k_bytes_, tile.k[half] + first * k_bytes_,
                  static_cast<size_t>(count * k_bytes_));
      if (v_bytes_ > 0) {
        std::memcpy(v_ + num_tokens * v_bytes_, tile.v[half] + first * v_bytes_,
                    static_cast<size_t>(count * v_bytes_));
      }
      num_tokens += count;
    });
  }
  return num_tokens;
}

TileKeys PackedKeys::Packed(const TileKeys& tile, int num_tokens) const {
  CHECK(num_tokens <= kTileKeys, "tokens={}", num_tokens);
  TileKeys packed = tile;
  packed.picked = true;
  packed.begin = 0;
  packed.end = num_tokens;
  for (int page = 0; page < kTilePages; ++page) {
    const int num_left = num_tokens - page * kTilePageTokens;
    packed.tokens[page] =
        num_left <= 0 ? 0
                      : ~uint32_t{0} >> std::max(kTilePageTokens - num_left, 0);
  }
  for (int half = 0; half < kTileHalves; ++half) {
    packed.k[half] = k_ + half * kHalfTokens * k_bytes_;
    packed.v[half] =
        v_bytes_ == 0 ? packed.k[half] : v_ + half * kHalfTokens * v_bytes_;
  }
  return packed;
}

}  // namespace winnow
