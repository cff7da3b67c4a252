#include <cstdint>
#include <limits>

#include "backend/cuda/device/linear/activation.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/fetch/pieces.h"
#include "backend/cuda/rows/row_ops.h"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"

namespace winnow {
namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 2;  // pieces of a thread whose loads travel together

struct GateShape {
  unsigned row_pieces, num_pieces;  // of a row, of all
  int64_t gate_stride, up_stride, out_stride;
};

// out = activation(gate) * up: a thread has kAtOnce pieces of kNumbers, each
// kThreads behind the one before, so that a warp's lie side by side. `out` may
// be `gate`.
template <device::Activation kActivation, typename In, typename Out,
          int kNumbers>
__global__ void __launch_bounds__(kThreads)
    GatedActKernel(GateShape shape, const In* gate, const In* up, Out* out) {
  using Piece = device::Piece<In, kNumbers>;
  device::BeginAfterPrior();
  const unsigned first = blockIdx.x * (kThreads * kAtOnce) + threadIdx.x;
  Piece gates[kAtOnce], ups[kAtOnce];
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const unsigned piece = first + k * kThreads;
    if (piece >= shape.num_pieces) break;
    const int64_t row = piece / shape.row_pieces;
    const int64_t i = int64_t{piece % shape.row_pieces} * kNumbers;
    gates[k] = Piece::Load(gate + row * shape.gate_stride + i);
    ups[k] = Piece::Load(up + row * shape.up_stride + i);
  }
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const unsigned piece = first + k * kThreads;
    if (piece >= shape.num_pieces) break;
    device::Piece<Out, kNumbers> answer;
#pragma unroll
    for (int j = 0; j < kNumbers; ++j) {
      const float x = device::ToFloat(gates[k].numbers[j]);
      const float y = device::ToFloat(ups[k].numbers[j]);
      answer.numbers[j] =
          device::FromFloat<Out>(device::Activate<kActivation>(x) * y);
    }
    const int64_t row = piece / shape.row_pieces;
    const int64_t i = int64_t{piece % shape.row_pieces} * kNumbers;
    answer.Store(out + row * shape.out_stride + i);
  }
}

// Launches the kernel for pieces of kNumbers, which divides the rows' size.
template <device::Activation kActivation, typename In, typename Out,
          int kNumbers>
void LaunchPieces(CudaQueue& queue, const GatedActArgs& args) {
  constexpr int64_t kBlockPieces = kThreads * kAtOnce;
  const int64_t row_pieces = args.gate.dim(1) / kNumbers;
  const int64_t num_pieces = args.gate.dim(0) * row_pieces;
  CHECK(num_pieces <= std::numeric_limits<unsigned>::max() - kBlockPieces,
        "gate {}", ToString(args.gate));
  const GateShape shape = {.row_pieces = static_cast<unsigned>(row_pieces),
                           .num_pieces = static_cast<unsigned>(num_pieces),
                           .gate_stride = args.gate.stride[0],
                           .up_stride = args.up.stride[0],
                           .out_stride = args.out.stride[0]};
  const auto blocks =
      static_cast<unsigned>((num_pieces + kBlockPieces - 1) / kBlockPieces);
  LaunchDependent(
      queue, "GatedAct", GatedActKernel<kActivation, In, Out, kNumbers>,
      {.blocks = blocks, .num_threads = kThreads}, shape,
      CudaData<In>(args.gate), CudaData<In>(args.up), CudaData<Out>(args.out));
}

// Bytes: gate and up read and out written, once; a division and an exponential
// (or tanh, erf) a number. 2,048 rows of 14,336 bfloat16 are 176 MB: 37 us at
// 4.8 TB/s. To keep that rate a multiprocessor wants about 40 KB under way; a
// thread has 64 bytes, so three blocks of the five that fit have them: 46 us,
// nine tenths of a copy's rate (`bench ops`, an H200). A quotient with a
// branch took 163.
template <device::Activation kActivation>
void Launch(CudaQueue& queue, const GatedActArgs& args) {
  WithCudaFloat(args.gate.dtype, [&](auto in) {
    WithCudaFloat(args.out.dtype, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      constexpr int kNumbers = device::kPieceNumbers<In>;
      if (HasPieces<In, kNumbers>(args.gate) &&
          HasPieces<In, kNumbers>(args.up) &&
          HasPieces<Out, kNumbers>(args.out)) {
        LaunchPieces<kActivation, In, Out, kNumbers>(queue, args);
      } else {
        LaunchPieces<kActivation, In, Out, 1>(queue, args);
      }
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
