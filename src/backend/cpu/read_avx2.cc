#include <immintrin.h>

#include "backend/cpu/blend_values.h"
#include "backend/cpu/cluster_kernels.h"
#include "backend/cpu/count_from.h"
#include "backend/cpu/float8_numbers.h"
#include "backend/cpu/float_words.h"
#include "backend/cpu/lanes_avx2.h"
#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_tile.h"
#include "backend/cpu/read_unit.h"
#include "backend/cpu/reduce_heads.h"
#include "backend/cpu/score_keys.h"
#include "backend/cpu/softmax_scores.h"
#include "backend/cpu/widened_words.h"

namespace winnow {
namespace {

using Words = FloatWords<Avx2Lanes>;
using OfBFloat16 = WidenedWords<Avx2Lanes, StoredBFloat16>;
using OfFloat16 = WidenedWords<Avx2Lanes, StoredFloat16>;

void WidenBFloat16(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += 8) {
    const __m128i bits =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
}

void WidenFloat16(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += 8) {
    const __m128i bits =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
}

}  // namespace

ReadKernels Avx2ReadKernels() {
  ReadKernels kernels;
  kernels.tile_float32 = ReadTile<Avx2Lanes, Words, 1>;
  kernels.unit_float32 = ReadUnit<Avx2Lanes, Words>;
  kernels.score_float32 = UnitScores<Avx2Lanes, Words>;
  kernels.unit_bfloat16 = ReadUnit<Avx2Lanes, OfBFloat16>;
  kernels.score_bfloat16 = UnitScores<Avx2Lanes, OfBFloat16>;
  kernels.bfloat16_query = OfBFloat16::Stored::kQuery;
  kernels.unit_float16 = ReadUnit<Avx2Lanes, OfFloat16>;
  kernels.score_float16 = UnitScores<Avx2Lanes, OfFloat16>;
  static_assert(OfFloat16::Stored::kQuery == QueryWords::kFloat32);
  kernels.keys_of = KeysOf<Avx2Lanes>;
  kernels.count_from = CountFrom<Avx2Lanes>;
  kernels.indices_from = IndicesFrom<Avx2Lanes>;
  kernels.blend = BlendValues<Avx2Lanes>;
  kernels.reduce_heads = ReduceHeads<Avx2Lanes>;
  kernels.softmax_scores = SoftmaxScores<Avx2Lanes>;
  kernels.transpose_keys = TransposeKeys<Avx2Lanes>;
  kernels.assign_keys = AssignKeys<Avx2Lanes>;
  kernels.move_centroids = MoveCentroids<Avx2Lanes>;
  kernels.widen_bfloat16 = WidenBFloat16;
  kernels.widen_float16 = WidenFloat16;
  kernels.widen_float8 = WidenFloat8<Avx2Lanes>;
  kernels.pair_float8 = PairFloat8<Avx2Lanes>;
  return kernels;
}

}  // namespace winnow
