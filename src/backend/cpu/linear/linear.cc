#include "backend/cpu/linear/linear.h"

#include <algorithm>

#include "backend/cpu/isa/float_types.h"
#include "backend/preconditions.h"

namespace winnow {

namespace {

template <typename T, typename Out>
void SumColumn(const LinearArgs& args, const LinearPart& part, int64_t n) {
  const T* weight = part.weight.codes.Row<T>(n);
  const float bias =
      part.bias.empty() ? 0.0f : static_cast<float>(part.bias.As<T>()[n]);
  for (int64_t row = 0; row < args.x.dim(0); ++row) {
    const T* x = args.x.Row<T>(row);
    float sum = 0;
    for (int64_t i = 0; i < args.x.dim(1); ++i) {
      sum += static_cast<float>(x[i]) * static_cast<float>(weight[i]);
    }
    float value = args.scale * (sum + bias);
    if (!args.residual.empty()) value += args.residual.Row<float>(row)[n];
    part.out.Row<Out>(row)[n] = Out(value);
  }
}

}  // namespace

void LinearColumn(const LinearArgs& args, const LinearPart& part,
                  int64_t column) {
  WithFloatType(args.x.dtype, [&](auto element) {
    using T = decltype(element);
    if (part.out.dtype == Dtype::kFloat32) {
      SumColumn<T, float>(args, part, column);
    } else {
      SumColumn<T, T>(args, part, column);
    }
  });
}

void LinearScalar(const LinearArgs& args, ThreadPool& pool) {
  CheckLinear(args);
  for (const LinearPart& part : args.parts) {
    pool.ParallelFor(part.weight.rows, [&](int64_t column, int) {
      LinearColumn(args, part, column);
    });
  }
}

}  // namespace winnow
