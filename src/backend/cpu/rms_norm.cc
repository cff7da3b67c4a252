#include "backend/cpu/rms_norm.h"

#include <cmath>

#include "backend/cpu/float_types.h"

namespace winnow {
namespace {

template <typename X>
float SumOfSquares(const X* x, int64_t size) {
  constexpr int kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<float>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  float sum = 0;
  for (; i < size; ++i) {
    const auto value = static_cast<float>(x[i]);
    sum += value * value;
  }
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <typename X, typename W, typename Out>
void NormalizeRow(const RmsNormArgs& args, int64_t row) {
  const int64_t size = args.x.dim(1);
  const X* x = args.x.Row<X>(row);
  const W* weight = args.weight.As<W>();
  Out* out = args.out.Row<Out>(row);
  const float mean = SumOfSquares(x, size) / static_cast<float>(size);
  const float factor = 1.0f / std::sqrt(mean + args.epsilon);
  for (int64_t i = 0; i < size; ++i) {
    out[i] =
        Out(static_cast<float>(x[i]) * factor * static_cast<float>(weight[i]));
  }
}

}  // namespace

void RmsNormRows(const RmsNormArgs& args, ThreadPool& pool) {
  const int64_t num_rows = args.x.dim(0);
  CHECK(args.out.dim(0) == num_rows && args.out.dim(1) == args.x.dim(1) &&
            args.weight.dim(0) == args.x.dim(1),
        "x {} weight {} out {}", ToString(args.x), ToString(args.weight),
        ToString(args.out));
  WithFloatType(args.x.dtype, [&](auto x) {
    WithFloatType(args.weight.dtype, [&](auto weight) {
      WithFloatType(args.out.dtype, [&](auto out) {
        pool.ParallelRanges(num_rows, 16, [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            NormalizeRow<decltype(x), decltype(weight), decltype(out)>(args,
                                                                       row);
          }
        });
      });
    });
  });
}

}  // namespace winnow
