#include <immintrin.h>

#include "backend/cpu/linear/few_rows_block.h"

namespace winnow {
namespace {

struct Avx512Pairs {
  using Pairs = __m512i;
  using Sums = __m512;
  static constexpr int kMaxRows = kMaxFewRows;
  static constexpr int64_t kStep = 32;

  // One stream comes nearest to a plain read: it took `winnow bench step` of
  // the 1B shape from 0.79 of one to 0.87 (two Zen 5 cores; before: six
  // streams, asked for 256 ahead). With more rows x outgrows the first cache
  // level, and is read less often where columns share it.
  static constexpr int Columns(int rows) { return rows <= 2 ? 1 : 3; }
  static constexpr int64_t Ahead(int rows) { return rows <= 2 ? 3072 : 1024; }

  [[gnu::always_inline]] static Pairs Load(const uint16_t* from) {
    return _mm512_loadu_si512(from);
  }
  // REQUIRES: count < kStep.
  [[gnu::always_inline]] static Pairs LoadFirst(const uint16_t* from,
                                                int64_t count) {
    return _mm512_maskz_loadu_epi16((__mmask32{1} << count) - 1, from);
  }
  [[gnu::always_inline]] static Pairs LoadKept(const void* kept,
                                               int64_t piece) {
    return _mm512_load_si512(static_cast<const uint16_t*>(kept) +
                             piece * kStep);
  }
  [[gnu::always_inline]] static void Keep(void* kept, int64_t piece, Pairs x) {
    _mm512_store_si512(static_cast<uint16_t*>(kept) + piece * kStep, x);
  }
  [[gnu::always_inline]] static Sums Zero() { return _mm512_setzero_ps(); }
  [[gnu::always_inline]] static Sums MultiplyAdd(Pairs w, Pairs x, Sums sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w),
                            reinterpret_cast<__m512bh>(x));
  }
  [[gnu::always_inline]] static float SumOf(Sums x) {
    return _mm512_reduce_add_ps(x);
  }
};

}  // namespace

FewRowsKernels Avx512Bf16FewRows() { return FewRows<Avx512Pairs>::Kernels(); }

}  // namespace winnow
