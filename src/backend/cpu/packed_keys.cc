#include "backend/cpu/packed_keys.h"

#include <bit>
#include <cstring>

#include "backend/cpu/fetch_lines.h"

namespace winnow {
namespace {

int CountTokens(const uint32_t (&tokens)[kTilePages]) {
  int count = 0;
  for (const uint32_t of_page : tokens) count += std::popcount(of_page);
  return count;
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
      k_(scratch.Take<std::byte>(kTilePageTokens * k_bytes_)),
      v_(v_bytes_ == 0 ? k_
                       : scratch.Take<std::byte>(kTilePageTokens * v_bytes_)) {}

bool PackedKeys::AreScattered(const uint32_t (&tokens)[kTilePages]) {
  int num_halves = 0;
  for (const uint32_t of_page : tokens) {
    num_halves += (of_page & 0xffff) != 0 ? 1 : 0;
    num_halves += of_page >> kHalfTokens != 0 ? 1 : 0;
  }
  const int num_packed = (CountTokens(tokens) + kHalfTokens - 1) / kHalfTokens;
  return num_packed > 0 && num_halves >= 3 * num_packed;
}

TileKeys PackedKeys::Find(const TileKeys& unit) const {
  const int num_tokens = CountTokens(unit.tokens);
  CHECK(unit.picked && num_tokens > 0 && num_tokens <= kTilePageTokens,
        "picked={} tokens={}", unit.picked, num_tokens);
  TileKeys packed = unit;
  packed.begin = 0;
  packed.end = num_tokens;
  packed.tokens[0] = ~uint32_t{0} >> (kTilePageTokens - num_tokens);
  for (int page = 1; page < kTilePages; ++page) packed.tokens[page] = 0;
  for (int half = 0; half < kPageHalves; ++half) {
    packed.k[half] = k_ + half * kHalfTokens * k_bytes_;
    packed.v[half] =
        v_bytes_ == 0 ? packed.k[half] : v_ + half * kHalfTokens * v_bytes_;
  }
  ForEachPicked(unit, k_bytes_, v_bytes_,
                [&](const std::byte* k, const std::byte* v) {
                  FetchToRead<kFirstLevel>(k, k_bytes_);
                  FetchToRead<kFirstLevel>(v, v_bytes_);
                });
  return packed;
}

void PackedKeys::Pack(const TileKeys& unit) const {
  const int num_tokens = CountTokens(unit.tokens);
  CHECK(num_tokens <= kTilePageTokens, "tokens={}", num_tokens);
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
