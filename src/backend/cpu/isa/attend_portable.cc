// The vector kernels in plain C++: what a compiler makes of sixteen floats.
#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/isa/lane_kernels.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "tensor/dtype.h"

namespace winnow {
namespace {

// Four floats: what every processor that we know of has (GCC and clang).
using Four = float __attribute__((vector_size(16)));
using FourInts = int32_t __attribute__((vector_size(16)));
using FourWords = uint32_t __attribute__((vector_size(16)));  // wraps

struct PortableLanes {
  struct F {
    Four part[4];
  };
  struct Mask {
    FourInts part[4];  // all bits of a chosen lane
  };
  struct KeyRange {
    FourInts first[4], last[4];
  };
  static constexpr int kUnitVectors = 1;
  static constexpr int kUnitRowStep = 1;
  static constexpr int kCentroidStep = 1;

  // f(i) in each part i.
  template <typename Of>
  [[gnu::always_inline]] static F Each(Of&& f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  template <typename Of>
  [[gnu::always_inline]] static Mask EachMask(Of&& f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  [[gnu::always_inline]] static Four Blend(FourInts mask, Four yes, Four no) {
    return (Four)((mask & (FourInts)yes) | (~mask & (FourInts)no));
  }

  [[gnu::always_inline]] static F Zero() { return Set(0); }
  [[gnu::always_inline]] static F Set(float x) {
    return Each([&](int) { return Four{x, x, x, x}; });
  }
  [[gnu::always_inline]] static F Load(const float* p) {
    F x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  [[gnu::always_inline]] static void Store(float* p, const F& x) {
    std::memcpy(p, &x, sizeof(x));
  }
  [[gnu::always_inline]] static F Add(const F& x, const F& y) {
    return Each([&](int i) { return x.part[i] + y.part[i]; });
  }
  [[gnu::always_inline]] static F Subtract(const F& x, const F& y) {
    return Each([&](int i) { return x.part[i] - y.part[i]; });
  }
  [[gnu::always_inline]] static F Multiply(const F& x, const F& y) {
    return Each([&](int i) { return x.part[i] * y.part[i]; });
  }
  [[gnu::always_inline]] static F Divide(const F& x, const F& y) {
    return Each([&](int i) { return x.part[i] / y.part[i]; });
  }
  [[gnu::always_inline]] static F MultiplyAdd(const F& x, const F& y,
                                              const F& z) {
    return Each([&](int i) { return x.part[i] * y.part[i] + z.part[i]; });
  }
  [[gnu::always_inline]] static F MultiplySubtract(const F& x, const F& y,
                                                   const F& z) {
    return Each([&](int i) { return x.part[i] * y.part[i] - z.part[i]; });
  }
  [[gnu::always_inline]] static F Max(const F& x, const F& y) {
    return Each([&](int i) {
      return Blend(x.part[i] > y.part[i], x.part[i], y.part[i]);
    });
  }
  [[gnu::always_inline]] static Mask Greater(const F& x, const F& y) {
    return EachMask([&](int i) { return x.part[i] > y.part[i]; });
  }
  [[gnu::always_inline]] static F Select(const Mask& mask, const F& yes,
                                         const F& no) {
    return Each(
        [&](int i) { return Blend(mask.part[i], yes.part[i], no.part[i]); });
  }
  [[gnu::always_inline]] static KeyRange Range(const int32_t* first,
                                               const int32_t* last) {
    KeyRange range;
    std::memcpy(range.first, first, sizeof(range.first));
    std::memcpy(range.last, last, sizeof(range.last));
    return range;
  }
  [[gnu::always_inline]] static Mask Holds(const KeyRange& range, int key) {
    return EachMask([&](int i) {
      return (range.first[i] <= key) & (range.last[i] >= key);
    });
  }
  [[gnu::always_inline]] static Mask KeysIn(int base, int first, int last) {
    return EachMask([&](int i) {
      const FourInts keys = FourInts{0, 1, 2, 3} + (base + 4 * i);
      return (keys >= first) & (keys <= last);
    });
  }
  // Lane i where bit i of `bits` is set.
  [[gnu::always_inline]] static Mask LanesOf(uint32_t bits) {
    return EachMask([&](int i) {
      const auto of_part = static_cast<int32_t>(bits >> (4 * i));
      return (FourInts{1, 2, 4, 8} & of_part) != 0;
    });
  }
  // Lane i where words[i] has bit `bit`.
  [[gnu::always_inline]] static Mask HaveBit(const uint32_t* words, int bit) {
    FourInts parts[4];
    std::memcpy(parts, words, sizeof(parts));
    const auto of_bit = static_cast<int32_t>(uint32_t{1} << bit);
    return EachMask([&](int i) { return (parts[i] & of_bit) != 0; });
  }
  // Halves are folded: lane i + lane i + 8, then 4, 2, 1.
  [[gnu::always_inline]] static float SumOf(const F& x) {
    const Four four = (x.part[0] + x.part[2]) + (x.part[1] + x.part[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
  }
  [[gnu::always_inline]] static float MaxOf(const F& x) {
    float lanes[16];
    Store(lanes, x);
    return *std::max_element(lanes, lanes + 16);
  }
  // Lane r: MaxOf(rows[r]).
  [[gnu::always_inline]] static F MaxOfEach(const F (&rows)[1]) {
    return Set(MaxOf(rows[0]));
  }
  // 2^x for x <= 0 by a polynomial of degree 5 on [-1/2, 1/2], exact at 0;
  // relative error 2e-7; 0 below 2^-126.
  template <int kDegree>
  [[gnu::always_inline]] static F Exp2(const F& x) {
    static_assert(kDegree == 5);
    return Each([&](int i) {
      // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
      constexpr float kToWhole = 0x1.8p23f;
      const Four least = Four{} - 126.0f;
      const FourInts in_range = x.part[i] >= least;
      const Four clamped = Blend(in_range, x.part[i], least);
      const Four shifted = clamped + kToWhole;
      const Four part = clamped - (shifted - kToWhole);
      Four y = 0x1.5bba22p-10f * part + 0x1.3cea92p-7f;
      y = y * part + 0x1.c6b754p-5f;
      y = y * part + 0x1.ebf9bcp-3f;
      y = y * part + 0x1.62e42ap-1f;
      y = y * part + 1.0f;
      const FourWords scaled = (FourWords)y + ((FourWords)shifted << 23);
      return (Four)((FourInts)scaled & in_range);
    });
  }
  // Lane t of to[i] = from[t * stride + i], for 16 words i.
  [[gnu::always_inline]] static void Transpose16(const float* from, int stride,
                                                 int, F (&to)[16]) {
    for (int i = 0; i < 16; ++i) {
      float lanes[16];
      for (int t = 0; t < 16; ++t) lanes[t] = from[t * stride + i];
      to[i] = Load(lanes);
    }
  }
};

template <typename T>
void Widen(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(std::bit_cast<T>(from[i]));
  }
}

}  // namespace

VectorKernels PortableVectorKernels() {
  VectorKernels kernels = LaneKernels<PortableLanes, 1>();
  kernels.widen_bfloat16 = Widen<BFloat16>;
  kernels.widen_float16 = Widen<Float16>;
  kernels.widen_float8 = WidenFloat8<PortableLanes>;
  return kernels;
}

}  // namespace winnow
