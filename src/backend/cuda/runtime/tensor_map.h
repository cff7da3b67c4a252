// Descriptions of tensors for Hopper's copy engine.
#ifndef WINNOW_BACKEND_CUDA_RUNTIME_TENSOR_MAP_H_
#define WINNOW_BACKEND_CUDA_RUNTIME_TENSOR_MAP_H_

#include <cuda.h>

#include "backend/contract/layer_cache.h"
#include "backend/cuda/runtime/cuda_queue.h"
#include "tensor/view.h"

namespace winnow {

// What a box's rows of 2 x chunk bytes look like in shared memory: swizzled
// over their own length. REQUIRES: of 64 or 128 bytes.
struct TensorBox {
  int chunk = 0;  // numbers of the last dimension
  int heads = 0;
  int rows = 0;
};

// bfloat16 [rows, heads, dim]; boxes [box.rows, box.heads, box.chunk].
// REQUIRES: data and strides are multiples of 16 bytes.
CUtensorMap MapRows(CudaQueue& queue, const View& rows, const TensorBox& box);

// A layer's bfloat16 pages as [KV blocks, kv_heads, 2, page_tokens, dim], keys
// before values; a box is `chunk` numbers of the tokens of one page. How many
// KV blocks there are is the page table's to say.
// REQUIRES: layer blocks, v_offset and strides are multiples of 16 bytes; k_dim
// is v_dim.
CUtensorMap MapPages(CudaQueue& queue, const LayerCache& cache, int chunk);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_RUNTIME_TENSOR_MAP_H_
