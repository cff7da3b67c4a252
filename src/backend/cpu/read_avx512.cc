#include <immintrin.h>

#include "backend/cpu/blend_values.h"
#include "backend/cpu/cluster_kernels.h"
#include "backend/cpu/count_from.h"
#include "backend/cpu/float8_numbers.h"
#include "backend/cpu/float_words.h"
#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_tile.h"
#include "backend/cpu/read_unit.h"
#include "backend/cpu/reduce_heads.h"
#include "backend/cpu/score_keys.h"
#include "backend/cpu/softmax_scores.h"
#include "backend/cpu/widened_words.h"

namespace winnow {
namespace {

using Words = FloatWords<Avx512Lanes>;
using OfBFloat16 = WidenedWords<Avx512Lanes, StoredBFloat16>;
using OfFloat16 = WidenedWords<Avx512Lanes, StoredFloat16>;

void WidenBFloat16(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += 16) {
    const __m256i bits =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_si512(to + i,
                        _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
}

void WidenFloat16(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += 16) {
    const __m256i bits =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(bits));
  }
}

}  // namespace

ReadKernels Avx512ReadKernels() {
  ReadKernels kernels;
  kernels.tile_float32 = ReadTile<Avx512Lanes, Words, 4>;
  kernels.unit_float32 = ReadUnit<Avx512Lanes, Words>;
  kernels.score_float32 = UnitScores<Avx512Lanes, Words>;
  kernels.unit_bfloat16 = ReadUnit<Avx512Lanes, OfBFloat16>;
  kernels.score_bfloat16 = UnitScores<Avx512Lanes, OfBFloat16>;
  kernels.bfloat16_query = OfBFloat16::Stored::kQuery;
  kernels.unit_float16 = ReadUnit<Avx512Lanes, OfFloat16>;
  kernels.score_float16 = UnitScores<Avx512Lanes, OfFloat16>;
  static_assert(OfFloat16::Stored::kQuery == QueryWords::kFloat32);
  kernels.keys_of = KeysOf<Avx512Lanes>;
  kernels.count_from = CountFrom<Avx512Lanes>;
  kernels.indices_from = IndicesFrom<Avx512Lanes>;
  kernels.keys_between = KeysBetween<Avx512Lanes>;
  kernels.blend = BlendValues<Avx512Lanes>;
  kernels.reduce_heads = ReduceHeads<Avx512Lanes>;
  kernels.softmax_scores = SoftmaxScores<Avx512Lanes>;
  kernels.transpose_keys = TransposeKeys<Avx512Lanes>;
  kernels.assign_keys = AssignKeys<Avx512Lanes>;
  kernels.move_centroids = MoveCentroids<Avx512Lanes>;
  kernels.widen_bfloat16 = WidenBFloat16;
  kernels.widen_float16 = WidenFloat16;
  kernels.widen_float8 = WidenFloat8<Avx512Lanes>;
  kernels.pair_float8 = PairFloat8<Avx512Lanes>;
  return kernels;
}

}  // namespace winnow
