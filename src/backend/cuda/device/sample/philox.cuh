// Random numbers on the device: the bits of backend/cpu/sample/philox.h.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_PHILOX_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_PHILOX_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace winnow::device {

// 64 uniform bits for draw number `draw` of a request with `seed`: the first
// two words of the block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011)
// whose key is the seed and whose counter is the draw, lower halves first.
__device__ inline uint64_t RandomBits(uint64_t seed, uint64_t draw) {
  constexpr int kRounds = 10;
  constexpr uint32_t kMultiplier0 = 0xd2511f53;
  constexpr uint32_t kMultiplier1 = 0xcd9e8d57;
  constexpr uint32_t kKeyStep0 = 0x9e3779b9;  // the golden ratio
  constexpr uint32_t kKeyStep1 = 0xbb67ae85;  // sqrt(3) - 1
  uint32_t counter[4] = {static_cast<uint32_t>(draw),
                         static_cast<uint32_t>(draw >> 32), 0, 0};
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter[0] = static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0;
    counter[1] = static_cast<uint32_t>(product1);
    counter[2] = static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1;
    counter[3] = static_cast<uint32_t>(product0);
    key0 += kKeyStep0;
    key1 += kKeyStep1;
  }
  return counter[0] | static_cast<uint64_t>(counter[1]) << 32;
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_PHILOX_CUH_
