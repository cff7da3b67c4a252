// Random numbers without a state: each is a function of its place alone.
#ifndef WINNOW_BACKEND_CPU_SAMPLE_PHILOX_H_
#define WINNOW_BACKEND_CPU_SAMPLE_PHILOX_H_

#include <array>
#include <cstdint>

namespace winnow {

// Philox4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). Chosen because it needs nothing but
// 32-bit products, so that every device can have the same bits, and because it
// passes BigCrush with counters and keys that count up, as ours do.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

// 64 uniform bits for draw number `draw` of a request with `seed`: the key is
// the seed, the counter is the draw, lower halves first; the answer is the
// first two words of the block, the first below the second.
uint64_t RandomBits(uint64_t seed, uint64_t draw);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SAMPLE_PHILOX_H_
