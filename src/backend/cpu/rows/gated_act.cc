#include "backend/cpu/rows/gated_act.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "backend/cpu/isa/float_types.h"

namespace winnow {
namespace {

// e^x for x in [-87, 80], beyond it that of the nearer end, in operations that
// a compiler makes vectors of, which it cannot of std::exp: x = n ln 2 + r, the
// Taylor polynomial of degree 7 at r, |r| <= ln 2 / 2, times 2^n. Relative
// error 2e-7. At these ends no result of Silu leaves the normal numbers: those
// that do take a hundred cycles each.
[[gnu::always_inline]] inline float VectorExp(float x) {
  constexpr float kToWhole = 0x1.8p23f;  // leaves n in the low bits
  const float bounded = x > -87.0f ? x : -87.0f;
  const float clamped = bounded < 80.0f ? bounded : 80.0f;
  const float shifted = clamped * std::numbers::log2e_v<float> + kToWhole;
  const float n = shifted - kToWhole;
  // ln 2 in two pieces; the first has few bits, so that n times it is exact.
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float y = r * (1.0f / 5040) + 1.0f / 720;
  y = y * r + 1.0f / 120;
  y = y * r + 1.0f / 24;
  y = y * r + 1.0f / 6;
  y = y * r + 0.5f;
  y = y * r + 1.0f;
  y = y * r + 1.0f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(y) +
                              (std::bit_cast<uint32_t>(shifted) << 23));
}

[[gnu::always_inline]] inline float Silu(float x) {
  return x / (1.0f + VectorExp(-x));
}

inline float Gelu(float x) {
  constexpr float kInvSqrt2 = std::numbers::sqrt2_v<float> / 2;
  return 0.5f * x * (1.0f + std::erf(x * kInvSqrt2));
}

// Hendrycks and Gimpel, arXiv 1606.08415, section 2.
inline float GeluTanh(float x) {
  const float sqrt_2_over_pi = std::sqrt(2.0f * std::numbers::inv_pi_v<float>);
  const float inner = sqrt_2_over_pi * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + std::tanh(inner));
}

// Through small buffers, so that each loop is free to become vectors although
// `out` may be `gate`.
template <float (*kFunction)(float), typename In, typename Out>
[[gnu::always_inline]] inline void GateInto(const In* gate, const In* up,
                                            int64_t size, Out* out) {
  constexpr int64_t kBlock = 64;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t count = std::min(kBlock, size - begin);
    float x[kBlock], y[kBlock];
    for (int64_t i = 0; i < count; ++i) {
      x[i] = static_cast<float>(gate[begin + i]);
      y[i] = static_cast<float>(up[begin + i]);
    }
    for (int64_t i = 0; i < count; ++i) y[i] = kFunction(x[i]) * y[i];
    for (int64_t i = 0; i < count; ++i) out[begin + i] = Out(y[i]);
  }
}

// The same in wider vectors: each number is made by the same operations in the
// same order, none of them contracted, so the bits do not depend on the CPU.
template <float (*kFunction)(float), typename In, typename Out>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void GateAvx512(
    const In* gate, const In* up, int64_t size, Out* out) {
  GateInto<kFunction>(gate, up, size, out);
}

template <float (*kFunction)(float), typename In, typename Out>
[[gnu::target("avx2")]] void GateAvx2(const In* gate, const In* up,
                                      int64_t size, Out* out) {
  GateInto<kFunction>(gate, up, size, out);
}

template <float (*kFunction)(float), typename In, typename Out>
void GateRow(const GatedActArgs& args, int64_t row) {
  const In* gate = args.gate.Row<In>(row);
  const In* up = args.up.Row<In>(row);
  Out* out = args.out.Row<Out>(row);
  const int64_t size = args.gate.dim(1);
  if (__builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    GateAvx512<kFunction>(gate, up, size, out);
  } else if (__builtin_cpu_supports("avx2")) {
    GateAvx2<kFunction>(gate, up, size, out);
  } else {
    GateInto<kFunction>(gate, up, size, out);
  }
}

template <typename In, typename Out>
void GateRowOf(const GatedActArgs& args, int64_t row) {
  switch (args.activation) {
    case Activation::kSilu:
      return GateRow<Silu, In, Out>(args, row);
    case Activation::kGeluTanh:
      return GateRow<GeluTanh, In, Out>(args, row);
    case Activation::kGelu:
      return GateRow<Gelu, In, Out>(args, row);
  }
  CHECK(false, "activation={}", static_cast<int>(args.activation));
}

}  // namespace

void GatedActRows(const GatedActArgs& args, ThreadPool& pool) {
  for (const View* view : {&args.up, &args.out}) {
    CHECK(view->dim(0) == args.gate.dim(0) && view->dim(1) == args.gate.dim(1),
          "gate {} up {} out {}", ToString(args.gate), ToString(args.up),
          ToString(args.out));
  }
  CHECK(args.up.dtype == args.gate.dtype, "gate {} up {}", ToString(args.gate),
        ToString(args.up));
  WithFloatType(args.gate.dtype, [&](auto in) {
    WithFloatType(args.out.dtype, [&](auto out) {
      pool.ParallelRanges(args.gate.dim(0), 4,
                          [&](int64_t begin, int64_t end, int) {
                            for (int64_t row = begin; row < end; ++row) {
                              GateRowOf<decltype(in), decltype(out)>(args, row);
                            }
                          });
    });
  });
}

}  // namespace winnow
