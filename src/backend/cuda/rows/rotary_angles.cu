#include "backend/cuda/rows/row_ops.h"
#include "backend/cuda/runtime/step_views.h"
#include "base/check.h"

namespace winnow {
namespace {

constexpr int kThreads = 128;

struct AnglesShape {
  int64_t half_dim;
  int64_t frequency_stride, out_stride;
};

// out [rows, 2 * half_dim]: cosines, then sines, of position * frequency: a
// block a row. The float32 angle is the definition; its functions are then
// taken in float64, so that they round once.
__global__ void RotaryAnglesKernel(device::StepRows rows, AnglesShape shape,
                                   const float* frequencies,
                                   const float* scales, float* out) {
  const int row = static_cast<int>(blockIdx.x);
  const int request = rows.Request(row);
  const auto position = static_cast<float>(rows.Position(row));
  const float scale = scales[request];
  float* to = out + row * shape.out_stride;
  for (int64_t i = threadIdx.x; i < shape.half_dim; i += kThreads) {
    const float angle =
        position * frequencies[request * shape.frequency_stride + i];
    double sine, cosine;
    sincos(static_cast<double>(angle), &sine, &cosine);
    to[i] = static_cast<float>(cosine) * scale;
    to[shape.half_dim + i] = static_cast<float>(sine) * scale;
  }
}

}  // namespace

void EnqueueRotaryAngles(CudaQueue& queue, const LayerStep& step,
                         const RotaryAnglesArgs& args) {
  const int64_t half_dim = args.inverse_frequencies.dim(1);
  CHECK(args.out.dim(0) == step.num_rows && args.out.dim(1) == 2 * half_dim &&
            args.scale.dim(0) == args.inverse_frequencies.dim(0),
        "rows={} inverse_frequencies {} scale {} out {}", step.num_rows,
        ToString(args.inverse_frequencies), ToString(args.scale),
        ToString(args.out));
  if (step.num_rows == 0) return;
  RotaryAnglesKernel<<<static_cast<unsigned>(step.num_rows), kThreads, 0,
                       queue.stream()>>>(
      DeviceRows(step),
      {half_dim, args.inverse_frequencies.stride[0], args.out.stride[0]},
      args.inverse_frequencies.As<float>(), args.scale.As<float>(),
      args.out.As<float>());
  queue.KeepLaunch("RotaryAngles");
}

}  // namespace winnow
