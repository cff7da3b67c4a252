// A step's rows and a layer's pages as kernels take them: plain pointers.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ROWS_STEP_ROWS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ROWS_STEP_ROWS_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/fetch/slots.cuh"

namespace winnow::device {

// What the tables say of a row.
struct RowPlace {
  int request;
  int position;  // in its sequence
  bool is_prompt;
};

// LayerStep (backend/contract/step.h) without what the host alone reads.
struct StepRows {
  const int32_t* row_to_request;      // [rows]
  const int32_t* first_row;           // [requests]
  const int32_t* first_position;      // [requests]
  const int32_t* num_tokens;          // [requests]
  const int32_t* num_prefill_rows;    // [requests]
  const int32_t* selector;            // [requests], or null
  const int32_t* num_prompt_tokens;   // [requests], or null
  const int32_t* num_context_tokens;  // [requests], or null
  int num_rows;
  int num_requests;
  int window;  // 0: none

  __device__ int Request(int row) const { return row_to_request[row]; }
  // Where a row's token stands in its sequence.
  __device__ int Position(int row) const {
    const int request = row_to_request[row];
    return first_position[request] + row - first_row[request];
  }
  // Prefill rows are attended by tiles, generated ones by units.
  __device__ bool IsPrompt(int row) const {
    const int request = row_to_request[row];
    return row - first_row[request] < num_prefill_rows[request];
  }
  // All of it together: once the request is known no load waits for another.
  __device__ RowPlace Place(int row) const {
    const int request = row_to_request[row];
    const int first = first_row[request];
    const int position = first_position[request];
    const int prefill_rows = num_prefill_rows[request];
    return {request, position + row - first, row - first < prefill_rows};
  }
  // The first position that a row at `position` sees.
  __device__ int FirstVisible(int position) const {
    const int first = position + 1 - window;
    return window == 0 || first < 0 ? 0 : first;
  }
};

// As in backend/contract/layer_cache.h.
inline constexpr uint32_t kNotWhole = 0xffffffffu;

// LayerCache (backend/contract/layer_cache.h), and the slots of pages that are
// not whole, for those who look there.
struct Pages {
  std::byte* layer_blocks;
  int64_t kv_block_stride_bytes;
  int64_t head_block_bytes;
  int64_t v_offset_bytes;  // of a slice's values
  // A request's pages are page_table[first_page[request] + page].
  const int32_t* first_page;  // [requests]
  const uint32_t* page_table;
  int max_pages;  // of a request
  int num_kv_heads;
  int k_dim, v_dim;
  Slots slots;

  __device__ uint32_t KvBlock(int request, int page) const {
    return page_table[first_page[request] + page];
  }
  __device__ std::byte* HeadBlockOf(uint32_t kv_block, int head) const {
    return layer_blocks + kv_block * kv_block_stride_bytes +
           head * head_block_bytes;
  }
  // REQUIRES: the page is whole.
  __device__ std::byte* Slice(int request, int page, int head) const {
    return HeadBlockOf(KvBlock(request, page), head);
  }

  __device__ PiecePlace InSlot(int request, int head, int slot) const {
    return {slots.Frame(request, slot) + head * head_block_bytes,
            slot % slots.pieces};
  }
  // On the host, or where it stays reclaimable. REQUIRES: the page is not
  // whole.
  __device__ PiecePlace OutOfSlots(int request, int page, int head,
                                   int index) const {
    const uint32_t number = slots.FarNumber(request, page);
    if ((number & kReclaimable) != 0) {
      return {HeadBlockOf(number & ~kReclaimable, head), index};
    }
    return {slots.HostLayerBlock(number) + head * head_block_bytes, index};
  }
  // Whole page, slot, or far. REQUIRES: there are slots.
  __device__ PiecePlace Find(int request, int page, int head, int index) const {
    const uint32_t kv_block = KvBlock(request, page);
    if (kv_block != kNotWhole) return {HeadBlockOf(kv_block, head), index};
    const auto piece = static_cast<uint32_t>(page * slots.pieces + index);
    const int slot =
        slots.SlotOf(request, head, slots.Entry(request, head, piece), piece);
    return slot >= 0 ? InSlot(request, head, slot)
                     : OutOfSlots(request, page, head, index);
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ROWS_STEP_ROWS_CUH_
