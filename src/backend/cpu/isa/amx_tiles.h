// AMX tiles of up to 16 rows of 64 bytes: how they are configured. Included by
// kernel files that are compiled for AMX.
#ifndef WINNOW_BACKEND_CPU_ISA_AMX_TILES_H_
#define WINNOW_BACKEND_CPU_ISA_AMX_TILES_H_

#include <immintrin.h>

#include <cstdint>

namespace winnow {

inline constexpr int kTileRowBytes = 64;
inline constexpr int kTileBytes = 16 * kTileRowBytes;

// Palette 1 with eight tiles of 16 rows of 64 bytes, unless told otherwise
// (Intel SDM volume 1, 18.2).
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t num_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

// GCC does not tell its optimiser that a tile load reads memory.
[[gnu::always_inline]] inline void FinishStores() {
  asm volatile("" ::: "memory");
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_AMX_TILES_H_
