#include <immintrin.h>

#include <cstddef>

#include "backend/cpu/isa/lanes_avx2.h"
#include "backend/cpu/isa/widened_words.h"
#include "backend/cpu/linear/few_rows_block.h"

namespace winnow {
namespace {

// Sixteen elements as float32: eight and the other eight, as Stored has them.
struct Sixteen {
  __m256 first, second;
};

template <class Stored>
struct Avx2Set {
  using Pairs = Sixteen;
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
    Pairs x;
    Stored::template Load<kStep / 2>(reinterpret_cast<const std::byte*>(from),
                                     x.first, x.second);
    return x;
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
    _mm256_storeu_ps(to, x.first);
    _mm256_storeu_ps(to + 8, x.second);
  }
  [[gnu::always_inline]] static Sums Zero() { return Avx2Register::Zero(); }
  [[gnu::always_inline]] static Sums MultiplyAdd(Pairs w, Pairs x, Sums sum) {
    return Avx2Register::MultiplyAdd(
        w.second, x.second, Avx2Register::MultiplyAdd(w.first, x.first, sum));
  }
  [[gnu::always_inline]] static float SumOf(Sums x) {
    return Avx2Register::SumOf(x);
  }
};

}  // namespace

FewRowsKernels Avx2FewRows() {
  return FewRows<Avx2Set<StoredBFloat16<Avx2Lanes>>>::Kernels();
}
FewRowsKernels Avx2Float16FewRows() {
  return FewRows<Avx2Set<StoredFloat16<Avx2Lanes>>>::Kernels();
}

}  // namespace winnow
