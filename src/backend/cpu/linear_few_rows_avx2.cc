#include <immintrin.h>

#include "backend/cpu/few_rows_block.h"
#include "backend/cpu/lanes_avx2.h"

namespace winnow {
namespace {

struct Avx2Pairs {
  // Both of each word of two as float32.
  struct Pairs {
    __m256 low, high;
  };
  using Sums = __m256;
  static constexpr int kMaxRows = 4;
  static constexpr int64_t kStep = 16;

  // With each row an accumulator, of which some eight are needed, as each waits
  // for its last sum.
  static constexpr int Columns(int rows) {
    return rows == 1 ? 4 : rows == 4 ? 2 : 3;
  }
  static constexpr int64_t Ahead(int) { return 2048; }

  [[gnu::always_inline]] static Pairs Load(const uint16_t* from) {
    return Widen(_mm256_loadu_ps(reinterpret_cast<const float*>(from)));
  }
  // REQUIRES: count < kStep.
  [[gnu::always_inline]] static Pairs LoadFirst(const uint16_t* from,
                                                int64_t count) {
    alignas(32) uint16_t words[kStep] = {};
    for (int64_t i = 0; i < count; ++i) words[i] = from[i];
    return Load(words);
  }
  [[gnu::always_inline]] static Pairs LoadKept(const void* kept,
                                               int64_t piece) {
    const float* from = static_cast<const float*>(kept) + piece * kStep;
    return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
  }
  [[gnu::always_inline]] static void Keep(void* kept, int64_t piece, Pairs x) {
    float* to = static_cast<float*>(kept) + piece * kStep;
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
  }
  [[gnu::always_inline]] static Sums Zero() { return _mm256_setzero_ps(); }
  [[gnu::always_inline]] static Sums MultiplyAdd(Pairs w, Pairs x, Sums sum) {
    return _mm256_fmadd_ps(w.high, x.high, _mm256_fmadd_ps(w.low, x.low, sum));
  }
  // Halves are folded: lane i + lane i + 4, then 2, 1.
  [[gnu::always_inline]] static float SumOf(Sums x) {
    const __m128 four =
        _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

 private:
  [[gnu::always_inline]] static Pairs Widen(__m256 words) {
    asm("" : "+x"(words));  // GCC 12 would load again for each use
    return {Avx2Register::LowHalf(words), Avx2Register::HighHalf(words)};
  }
};

}  // namespace

FewRowsKernels Avx2FewRows() { return FewRows<Avx2Pairs>::Kernels(); }

}  // namespace winnow
