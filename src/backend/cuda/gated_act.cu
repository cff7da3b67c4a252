#include "backend/cuda/cuda_types.h"
#include "backend/cuda/dependent_launch.h"
#include "backend/cuda/device/activation.cuh"
#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/row_verbs.h"

namespace winnow {
namespace {

constexpr int kThreads = 256;

struct GateShape {
  int64_t size;
  int64_t gate_stride, up_stride, out_stride;
};

// out = activation(gate) * up: a thread a number, blockIdx.y the row.
template <device::Activation kActivation, typename In, typename Out>
__global__ void GatedActKernel(GateShape shape, const In* gate, const In* up,
                               Out* out) {
  device::BeginAfterPrior();
  const int64_t row = blockIdx.x;
  const int64_t i = blockIdx.y * int64_t{kThreads} + threadIdx.x;
  if (i >= shape.size) return;
  const float x = device::ToFloat(gate[row * shape.gate_stride + i]);
  const float y = device::ToFloat(up[row * shape.up_stride + i]);
  out[row * shape.out_stride + i] =
      device::FromFloat<Out>(device::Activate<kActivation>(x) * y);
}

template <device::Activation kActivation>
void Launch(CudaQueue& queue, const GatedActArgs& args) {
  const GateShape shape = {args.gate.dim(1), args.gate.stride[0],
                           args.up.stride[0], args.out.stride[0]};
  const dim3 grid(
      static_cast<unsigned>(args.gate.dim(0)),
      static_cast<unsigned>((shape.size + kThreads - 1) / kThreads));
  WithCudaFloat(args.gate.dtype, [&](auto in) {
    WithCudaFloat(args.out.dtype, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      LaunchDependent(queue, "GatedAct", GatedActKernel<kActivation, In, Out>,
                      {.blocks = grid, .num_threads = kThreads}, shape,
                      CudaData<In>(args.gate), CudaData<In>(args.up),
                      CudaData<Out>(args.out));
    });
  });
}

}  // namespace

void EnqueueGatedAct(CudaQueue& queue, const GatedActArgs& args) {
  for (const View* view : {&args.up, &args.out}) {
    CHECK(view->dim(0) == args.gate.dim(0) && view->dim(1) == args.gate.dim(1),
          "gate {} up {} out {}", ToString(args.gate), ToString(args.up),
          ToString(args.out));
  }
  CHECK(args.up.dtype == args.gate.dtype, "gate {} up {}", ToString(args.gate),
        ToString(args.up));
  if (args.gate.dim(0) == 0 || args.gate.dim(1) == 0) return;
  switch (args.activation) {
    case Activation::kSilu:
      Launch<device::Activation::kSilu>(queue, args);
      break;
    case Activation::kGeluTanh:
      Launch<device::Activation::kGeluTanh>(queue, args);
      break;
    case Activation::kGelu:
      Launch<device::Activation::kGelu>(queue, args);
      break;
  }
}

}  // namespace winnow
