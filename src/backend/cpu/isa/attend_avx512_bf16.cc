#include "backend/cpu/attend/attend_tile.h"
#include "backend/cpu/attend/attend_unit.h"
#include "backend/cpu/isa/bfloat16_words.h"
#include "backend/cpu/isa/lanes_avx512.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {
namespace {

// Of CPUs with AVX512_BF16, Zen 5 alone has this one too.
bool IsZen5() { return __builtin_cpu_supports("avx512vp2intersect"); }

}  // namespace

VectorKernels Avx512Bf16VectorKernels() {
  VectorKernels kernels = Avx512VectorKernels();
  kernels.bfloat16_query = QueryWords::kBFloat16;
  kernels.tile_bfloat16 = AttendTile<Avx512Lanes, BFloat16Words, 4>;
  if (IsZen5()) kernels.near_bytes = 8192;
  kernels.unit_bfloat16 = IsZen5()
                              ? AttendUnit<Avx512Lanes, BFloat16WordsFarFirst>
                              : AttendUnit<Avx512Lanes, BFloat16Words>;
  kernels.score_bfloat16 = IsZen5()
                               ? UnitScores<Avx512Lanes, BFloat16WordsFarFirst>
                               : UnitScores<Avx512Lanes, BFloat16Words>;
  if (__builtin_cpu_supports("avx512vbmi")) {
    kernels.score_float8 = Float8ScoreKernel(IsZen5());
  }
  return kernels;
}

}  // namespace winnow
