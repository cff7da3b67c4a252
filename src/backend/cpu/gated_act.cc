#include "backend/cpu/gated_act.h"

#include <cmath>
#include <numbers>

#include "backend/cpu/float_types.h"

namespace winnow {
namespace {

float Silu(float x) { return x / (1.0f + std::exp(-x)); }

float Gelu(float x) {
  constexpr float kInvSqrt2 = std::numbers::sqrt2_v<float> / 2;
  return 0.5f * x * (1.0f + std::erf(x * kInvSqrt2));
}

// Hendrycks and Gimpel, arXiv 1606.08415, section 2.
float GeluTanh(float x) {
  const float sqrt_2_over_pi = std::sqrt(2.0f * std::numbers::inv_pi_v<float>);
  const float inner = sqrt_2_over_pi * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + std::tanh(inner));
}

using Function = float (*)(float);

Function FunctionOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return Silu;
    case Activation::kGeluTanh:
      return GeluTanh;
    case Activation::kGelu:
      return Gelu;
  }
  CHECK(false, "activation={}", static_cast<int>(activation));
}

template <typename In, typename Out>
void GateRow(const GatedActArgs& args, Function function, int64_t row) {
  const In* gate = args.gate.Row<In>(row);
  const In* up = args.up.Row<In>(row);
  Out* out = args.out.Row<Out>(row);
  for (int64_t i = 0; i < args.gate.dim(1); ++i) {
    out[i] =
        Out(function(static_cast<float>(gate[i])) * static_cast<float>(up[i]));
  }
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
  const Function function = FunctionOf(args.activation);
  WithFloatType(args.gate.dtype, [&](auto in) {
    WithFloatType(args.out.dtype, [&](auto out) {
      pool.ParallelRanges(
          args.gate.dim(0), 4, [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row) {
              GateRow<decltype(in), decltype(out)>(args, function, row);
            }
          });
    });
  });
}

}  // namespace winnow
