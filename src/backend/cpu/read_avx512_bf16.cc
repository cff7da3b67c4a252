#include "backend/cpu/bfloat16_words.h"
#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_tile.h"
#include "backend/cpu/read_unit.h"

namespace winnow {

ReadKernels Avx512Bf16ReadKernels() {
  ReadKernels kernels = Avx512ReadKernels();
  kernels.tile_bfloat16 = ReadTile<Avx512Lanes, BFloat16Words, 4>;
  kernels.unit_bfloat16 = ReadUnit<Avx512Lanes, BFloat16Words>;
  kernels.score_bfloat16 = UnitScores<Avx512Lanes, BFloat16Words>;
  return kernels;
}

}  // namespace winnow
