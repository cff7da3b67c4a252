// The vector kernels in plain C++: what a compiler makes of sixteen floats.
#include <algorithm>
#include <bit>

#include "backend/cpu/float_words.h"
#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_tile.h"
#include "backend/cpu/read_unit.h"
#include "tensor/dtype.h"

namespace winnow {
namespace {

struct PortableLanes {
  struct F {
    float lane[16];
  };
  struct Mask {
    int32_t lane[16];
  };
  struct KeyRange {
    int32_t first[16], last[16];
  };
  static constexpr int kUnitVectors = 1;
  static constexpr int kUnitRowStep = 1;

  // f(i) in each lane i.
  template <typename Of>
  [[gnu::always_inline]] static F Each(Of&& f) {
    F x;
    for (int i = 0; i < 16; ++i) x.lane[i] = f(i);
    return x;
  }

  static F Zero() { return Set(0); }
  static F Set(float x) {
    return Each([&](int) { return x; });
  }
  static F Load(const float* p) {
    return Each([&](int i) { return p[i]; });
  }
  static void Store(float* p, const F& x) { std::copy_n(x.lane, 16, p); }
  static F Add(const F& x, const F& y) {
    return Each([&](int i) { return x.lane[i] + y.lane[i]; });
  }
  static F Subtract(const F& x, const F& y) {
    return Each([&](int i) { return x.lane[i] - y.lane[i]; });
  }
  static F Multiply(const F& x, const F& y) {
    return Each([&](int i) { return x.lane[i] * y.lane[i]; });
  }
  static F MultiplyAdd(const F& x, const F& y, const F& z) {
    return Each([&](int i) { return x.lane[i] * y.lane[i] + z.lane[i]; });
  }
  static F MultiplySubtract(const F& x, const F& y, const F& z) {
    return Each([&](int i) { return x.lane[i] * y.lane[i] - z.lane[i]; });
  }
  static F Max(const F& x, const F& y) {
    return Each(
        [&](int i) { return x.lane[i] > y.lane[i] ? x.lane[i] : y.lane[i]; });
  }
  static Mask Greater(const F& x, const F& y) {
    Mask mask;
    for (int i = 0; i < 16; ++i) mask.lane[i] = x.lane[i] > y.lane[i] ? -1 : 0;
    return mask;
  }
  static F Select(const Mask& mask, const F& yes, const F& no) {
    return Each([&](int i) { return mask.lane[i] ? yes.lane[i] : no.lane[i]; });
  }
  static KeyRange Range(const int32_t* first, const int32_t* last) {
    KeyRange range;
    std::copy_n(first, 16, range.first);
    std::copy_n(last, 16, range.last);
    return range;
  }
  static Mask Holds(const KeyRange& range, int key) {
    Mask mask;
    for (int i = 0; i < 16; ++i) {
      mask.lane[i] = range.first[i] <= key && key <= range.last[i] ? -1 : 0;
    }
    return mask;
  }
  static Mask KeysIn(int base, int first, int last) {
    Mask mask;
    for (int i = 0; i < 16; ++i) {
      mask.lane[i] = first <= base + i && base + i <= last ? -1 : 0;
    }
    return mask;
  }
  static float SumOf(F x) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) x.lane[i] += x.lane[i + half];
    }
    return x.lane[0];
  }
  static float MaxOf(const F& x) {
    return *std::max_element(x.lane, x.lane + 16);
  }
  // 2^x for x <= 0 by a polynomial of degree 5 on [-1/2, 1/2], exact at 0;
  // relative error 2e-7; 0 below 2^-126.
  template <int kDegree>
  static F Exp2(const F& x) {
    static_assert(kDegree == 5);
    return Each([&](int i) {
      // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
      constexpr float kToWhole = 0x1.8p23f;
      const float clamped = x.lane[i] > -126.0f ? x.lane[i] : -126.0f;
      const float shifted = clamped + kToWhole;
      const float part = clamped - (shifted - kToWhole);
      float y = 0x1.5bba22p-10f;
      y = y * part + 0x1.3cea92p-7f;
      y = y * part + 0x1.c6b754p-5f;
      y = y * part + 0x1.ebf9bcp-3f;
      y = y * part + 0x1.62e42ap-1f;
      y = y * part + 1.0f;
      const uint32_t bits =
          std::bit_cast<uint32_t>(y) + (std::bit_cast<uint32_t>(shifted) << 23);
      return x.lane[i] >= -126.0f ? std::bit_cast<float>(bits) : 0.0f;
    });
  }
  static void Transpose16(const float* from, int stride, int, F (&to)[16]) {
    for (int i = 0; i < 16; ++i) {
      to[i] = Each([&](int t) { return from[t * stride + i]; });
    }
  }
};

using Words = FloatWords<PortableLanes>;

template <typename T>
void Widen(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(std::bit_cast<T>(from[i]));
  }
}

}  // namespace

ReadKernels PortableReadKernels() {
  ReadKernels kernels;
  kernels.tile_float32 = ReadTile<PortableLanes, Words, 1>;
  kernels.unit_float32 = ReadUnit<PortableLanes, Words>;
  kernels.widen_bfloat16 = Widen<BFloat16>;
  kernels.widen_float16 = Widen<Float16>;
  return kernels;
}

}  // namespace winnow
