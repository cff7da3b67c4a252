#include "backend/cuda/cuda_types.h"
#include "backend/cuda/device/element.cuh"
#include "backend/cuda/row_verbs.h"

namespace winnow {
namespace {

constexpr int kThreads = 256;

struct EmbedShape {
  int64_t hidden;
  int64_t table_stride, out_stride;
  float scale;
};

// out [rows, hidden] = scale * table[token_ids[row]]: a block a row.
// Bytes: hidden x (element + 4) a row.
template <typename T>
__global__ void EmbedKernel(EmbedShape shape, const int32_t* token_ids,
                            const T* table, float* out) {
  const T* from = table + token_ids[blockIdx.x] * shape.table_stride;
  float* to = out + blockIdx.x * shape.out_stride;
  for (int64_t i = threadIdx.x; i < shape.hidden; i += kThreads) {
    to[i] = shape.scale * device::ToFloat(from[i]);
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
  WithCudaFloat(args.table.dtype, [&](auto element) {
    using T = decltype(element);
    EmbedKernel<T>
        <<<static_cast<unsigned>(num_rows), kThreads, 0, queue.stream()>>>(
            shape, args.token_ids.As<int32_t>(), CudaData<T>(args.table),
            args.out.As<float>());
  });
  queue.KeepLaunch("Embed");
}

}  // namespace winnow
