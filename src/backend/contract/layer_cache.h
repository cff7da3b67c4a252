// Where the KV of a step lies, as plain data that kernels read: filled in by
// cache/, read by backends, understood by nobody else.
#ifndef WINNOW_BACKEND_CONTRACT_LAYER_CACHE_H_
#define WINNOW_BACKEND_CONTRACT_LAYER_CACHE_H_

#include <cstdint>

#include "backend/contract/row_table.h"
#include "base/ids.h"
#include "tensor/view.h"

namespace winnow {

// The layout of a slice: K and V of one page for one layer and one KV head,
// [K page_tokens x k_dim][V page_tokens x v_dim], then scales where quantised.
// The same bytes in every tier.
struct HeadBlockFormat {
  Dtype k = Dtype::kBFloat16;
  Dtype v = Dtype::kBFloat16;
  int k_dim = 0;
  int v_dim = 0;
  bool v_in_k = false;  // MLA: V is the first v_dim numbers of K
  int page_tokens = kPageTokens;
  int slot_tokens = kPageTokens;  // 8, 16 or 32; divides page_tokens
  int scale_bytes = 0;
  int head_block_bytes = 0;    // from a head's slice to the next one's
  int64_t v_offset_bytes = 0;  // from a slice's K to its V
};

// A HeadBlockFormat of unquantised K and V, V right behind K.
HeadBlockFormat MakeHeadBlockFormat(Dtype dtype, int k_dim, int v_dim);

// In a page table: the page has no KV block on the device, its tokens may have
// slots (slot_table.h).
inline constexpr uint32_t kNotWhole = 0xffffffffu;

// One layer's KV of every request in a step. The slice of (KV block, head) is
// at layer blocks + KV block * kv_block_stride_bytes + head * head_block_bytes:
// layer-major and block-major pools differ in two numbers. A layer's layer
// blocks of one KV block, heads adjacent, are one layer block.
struct LayerCache {
  HeadBlockFormat format;
  int num_kv_heads = 0;
  std::byte* layer_blocks = nullptr;
  int64_t kv_block_stride_bytes = 0;
  RowTable page_table;  // by request and page: KV block, or kNotWhole
  int max_pages = 0;    // that a request of the step may have

  std::byte* Slice(uint32_t kv_block, int head) const {
    return layer_blocks + int64_t{kv_block} * kv_block_stride_bytes +
           int64_t{head} * format.head_block_bytes;
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_LAYER_CACHE_H_
