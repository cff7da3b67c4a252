#include "backend/cpu/sample/philox.h"

namespace winnow {
namespace {

constexpr uint32_t LowerHalf(uint64_t word) {
  return static_cast<uint32_t>(word);
}
constexpr uint32_t UpperHalf(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr uint64_t kMultiplier0 = 0xd2511f53;
  constexpr uint64_t kMultiplier1 = 0xcd9e8d57;
  constexpr uint32_t kKeyStep0 = 0x9e3779b9;  // the golden ratio
  constexpr uint32_t kKeyStep1 = 0xbb67ae85;  // sqrt(3) - 1
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {UpperHalf(product1) ^ counter[1] ^ key[0], LowerHalf(product1),
               UpperHalf(product0) ^ counter[3] ^ key[1], LowerHalf(product0)};
    key[0] += kKeyStep0;
    key[1] += kKeyStep1;
  }
  return counter;
}

uint64_t RandomBits(uint64_t seed, uint64_t draw) {
  const std::array<uint32_t, 4> block =
      Philox4x32({LowerHalf(draw), UpperHalf(draw), 0, 0},
                 {LowerHalf(seed), UpperHalf(seed)});
  return block[0] | static_cast<uint64_t>(block[1]) << 32;
}

}  // namespace winnow
