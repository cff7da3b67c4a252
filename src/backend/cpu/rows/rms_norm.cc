#include "backend/cpu/rows/rms_norm.h"

#include <cmath>

#include "backend/cpu/isa/float_types.h"

namespace winnow {
namespace {

template <typename X>
float SumOfSquares(const X* x, int64_t size) {
  constexpr int kNumLanes = 16;
  float lanes[kNumLanes] = {};
  int64_t i = 0;
  for (; i + kNumLanes <= size; i += kNumLanes) {
    for (int lane = 0; lane < kNumLanes; ++lane) {
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

// Row `index` of [rows, size], or of [rows, heads, size] head by head.
template <typename T>
T* HeadRow(const View& view, int64_t index) {
  if (view.rank == 2) return view.Row<T>(index);
  return view.Row<T>(index / view.dim(1)) +
         index % view.dim(1) * view.stride[1];
}

template <typename X, typename W, typename Out>
void NormalizeRow(const RmsNormArgs& args, int64_t row) {
  const int64_t size = args.weight.dim(0);
  const X* x = HeadRow<X>(args.x, row);
  const W* weight = args.weight.As<W>();
  Out* out = HeadRow<Out>(args.out, row);
  const float mean = SumOfSquares(x, size) / static_cast<float>(size);
  const float factor = 1.0f / std::sqrt(mean + args.epsilon);
  for (int64_t i = 0; i < size; ++i) {
    out[i] =
        Out(static_cast<float>(x[i]) * factor * static_cast<float>(weight[i]));
  }
}

}  // namespace

void RmsNormRows(const RmsNormArgs& args, ThreadPool& pool) {
  const int rank = args.x.rank;
  CHECK((rank == 2 || rank == 3) && args.out.rank == rank &&
            args.out.shape == args.x.shape &&
            args.weight.dim(0) == args.x.dim(rank - 1),
        "x {} weight {} out {}", ToString(args.x), ToString(args.weight),
        ToString(args.out));
  const int64_t num_rows = args.x.dim(0) * (rank == 3 ? args.x.dim(1) : 1);
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
