#include "backend/cuda/rows/row_ops.h"
#include "base/check.h"

namespace winnow {
namespace {

constexpr int kThreads = 256;

struct RowBytes {
  int64_t size, x_stride, out_stride;
};

// out[row] = x[indices[row]], as bytes in words of T: a block a row.
template <typename T>
__global__ void GatherRowsKernel(RowBytes bytes, const std::byte* x,
                                 const int32_t* indices, std::byte* out) {
  const std::byte* from = x + indices[blockIdx.x] * bytes.x_stride;
  std::byte* to = out + blockIdx.x * bytes.out_stride;
  for (int64_t i = threadIdx.x; i * int64_t{sizeof(T)} < bytes.size;
       i += kThreads) {
    reinterpret_cast<T*>(to)[i] = reinterpret_cast<const T*>(from)[i];
  }
}

}  // namespace

void EnqueueGatherRows(CudaQueue& queue, const GatherRowsArgs& args) {
  CHECK(args.out.dim(0) == args.indices.dim(0) &&
            args.out.dim(1) == args.x.dim(1) && args.out.dtype == args.x.dtype,
        "x {} indices {} out {}", ToString(args.x), ToString(args.indices),
        ToString(args.out));
  const auto num_rows = static_cast<unsigned>(args.out.dim(0));
  if (num_rows == 0) return;
  const int64_t element_bytes = DtypeBytes(args.x.dtype);
  const RowBytes bytes = {args.x.dim(1) * element_bytes,
                          args.x.stride[0] * element_bytes,
                          args.out.stride[0] * element_bytes};
  const auto launch = [&](auto word) {
    GatherRowsKernel<decltype(word)><<<num_rows, kThreads, 0, queue.stream()>>>(
        bytes, args.x.data, args.indices.As<int32_t>(), args.out.data);
  };
  const auto addresses = reinterpret_cast<uintptr_t>(args.x.data) |
                         reinterpret_cast<uintptr_t>(args.out.data) |
                         static_cast<uintptr_t>(bytes.x_stride) |
                         static_cast<uintptr_t>(bytes.out_stride) |
                         static_cast<uintptr_t>(bytes.size);
  if (addresses % sizeof(uint4) == 0) {
    launch(uint4());
  } else if (addresses % sizeof(uint32_t) == 0) {
    launch(uint32_t());
  } else {
    launch(uint16_t());
  }
  queue.KeepLaunch("GatherRows");
}

}  // namespace winnow
