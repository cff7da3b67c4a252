#include "backend/contract/layer_cache.h"

namespace winnow {

HeadBlockFormat MakeHeadBlockFormat(Dtype dtype, int k_dim, int v_dim) {
  CHECK(k_dim > 0 && v_dim > 0, "k_dim={} v_dim={}", k_dim, v_dim);
  HeadBlockFormat format;
  format.k = format.v = dtype;
  format.k_dim = k_dim;
  format.v_dim = v_dim;
  format.v_offset_bytes =
      int64_t{format.page_tokens} * k_dim * DtypeBytes(dtype);
  format.head_block_bytes =
      format.page_tokens * (k_dim + v_dim) * DtypeBytes(dtype);
  return format;
}

}  // namespace winnow
