#include "backend/cuda/runtime/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>

namespace winnow {
namespace {

// More than any device holds: bounds the KV blocks that a map reaches.
constexpr uint64_t kMaxPoolBytes = uint64_t{1} << 40;

// What the driver's function takes, innermost dimension first.
template <size_t kRank>
struct MapShape {
  void* data = nullptr;
  std::array<uint64_t, kRank> dims = {};
  std::array<uint64_t, kRank - 1> stride_bytes = {};  // but the innermost
  std::array<uint32_t, kRank> box = {};
};

template <size_t kRank>
CUtensorMap Encode(CudaQueue& queue, const MapShape<kRank>& shape) {
  CUtensorMap map = {};
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = {};
  // The driver's library is not linked to: programs start without a device.
  const cudaError_t status = cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  queue.Keep(status, "finding cuTensorMapEncodeTiled");
  if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) return map;
  std::array<uint32_t, kRank> steps;
  steps.fill(1);
  const auto encode =
      reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry);
  const CUresult result = encode(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, shape.data,
      shape.dims.data(), shape.stride_bytes.data(), shape.box.data(),
      steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      shape.box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B
                         : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled: {}",
        static_cast<int>(result));
  return map;
}

}  // namespace

CUtensorMap MapRows(CudaQueue& queue, const View& rows, const TensorBox& box) {
  MapShape<3> shape;
  shape.data = rows.data;
  for (size_t i = 0; i < 3; ++i) {
    shape.dims[i] = static_cast<uint64_t>(rows.shape[2 - i]);
  }
  shape.stride_bytes = {2 * static_cast<uint64_t>(rows.stride[1]),
                        2 * static_cast<uint64_t>(rows.stride[0])};
  shape.box = {static_cast<uint32_t>(box.chunk),
               static_cast<uint32_t>(box.heads),
               static_cast<uint32_t>(box.rows)};
  return Encode(queue, shape);
}

CUtensorMap MapPages(CudaQueue& queue, const LayerCache& cache, int chunk) {
  const HeadBlockFormat& format = cache.format;
  const auto dim = static_cast<uint64_t>(format.k_dim);
  const auto kv_block_bytes =
      static_cast<uint64_t>(cache.kv_block_stride_bytes);
  MapShape<5> shape;
  shape.data = cache.layer_blocks;
  shape.dims = {dim, static_cast<uint64_t>(format.page_tokens), 2,
                static_cast<uint64_t>(cache.num_kv_heads),
                std::min(kMaxPoolBytes / kv_block_bytes, uint64_t{1} << 31)};
  shape.stride_bytes = {2 * dim, static_cast<uint64_t>(format.v_offset_bytes),
                        static_cast<uint64_t>(format.head_block_bytes),
                        kv_block_bytes};
  shape.box = {static_cast<uint32_t>(chunk),
               static_cast<uint32_t>(format.page_tokens), 1, 1, 1};
  return Encode(queue, shape);
}

}  // namespace winnow
