#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/fetch/pieces.h"
#include "backend/cuda/rows/row_ops.h"
#include "backend/cuda/runtime/cuda_types.h"

namespace winnow {
namespace {

constexpr int kThreads = 256;

struct EmbedShape {
  int64_t hidden;
  int64_t table_stride, out_stride;
  float scale;
};

// out [rows, hidden] = scale * table[token_ids[row]], zeros where that is -1: a
// block a row, a thread every kThreads-th piece of kNumbers, which divides
// hidden.
template <typename T, int kNumbers>
__global__ void EmbedKernel(EmbedShape shape, const int32_t* token_ids,
                            const T* table, float* out) {
  const int32_t token_id = token_ids[blockIdx.x];
  const T* from = table + max(token_id, 0) * shape.table_stride;
  float* to = out + blockIdx.x * shape.out_stride;
  constexpr int kStep = kThreads * kNumbers;
  for (int64_t i = threadIdx.x * kNumbers; i < shape.hidden; i += kStep) {
    const auto piece = device::Piece<T, kNumbers>::Load(from + i);
    device::Piece<float, kNumbers> scaled;
#pragma unroll
    for (int j = 0; j < kNumbers; ++j) {
      const float number = shape.scale * device::ToFloat(piece.numbers[j]);
      scaled.numbers[j] = token_id < 0 ? 0.0f : number;
    }
    scaled.Store(to + i);
  }
}

}  // namespace

void EnqueueEmbed(CudaQueue& queue, const EmbedArgs& args) {
  const int64_t num_rows = args.token_ids.dim(0);
  const int64_t hidden = args.table.dim(1);
  CHECK(args.out.dim(0) == num_rows && args.out.dim(1) == hidden,
        "token_ids {} table {} out {}", ToString(args.token_ids),
        ToString(args.table), ToString(args.out));
  if (num_rows == 0) return;
  const EmbedShape shape = {hidden, args.table.stride[0], args.out.stride[0],
                            args.scale};
  const auto launch = [&](auto* kernel, auto* table) {
    kernel<<<static_cast<unsigned>(num_rows), kThreads, 0, queue.stream()>>>(
        shape, args.token_ids.As<int32_t>(), table, args.out.As<float>());
  };
  // Bytes: hidden x (element + 4) a row, of which 2,048 of 4,096 bfloat16 are
  // 50 MB: 10.5 us at 4.8 TB/s, and nearly as long again for ids and rows to
  // come: 18.8 (`bench ops`, an H200; a thread a number took 21.1).
  WithCudaFloat(args.table.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int kNumbers = device::kPieceNumbers<T>;
    const auto* table = CudaData<T>(args.table);
    if (HasPieces<T, kNumbers>(args.table) &&
        HasPieces<float, kNumbers>(args.out)) {
      launch(EmbedKernel<T, kNumbers>, table);
    } else {
      launch(EmbedKernel<T, 1>, table);
    }
  });
  queue.KeepLaunch("Embed");
}

}  // namespace winnow
