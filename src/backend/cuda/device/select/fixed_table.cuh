// What requests read for good, as kernels take it.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_TABLE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_TABLE_CUH_

#include "backend/cuda/device/rows/step_rows.cuh"

namespace winnow::device {

// FixedChoice::Kind (backend/contract/select_program.h).
enum class FixedKind : uint8_t { kNone, kObserved, kOutliers };

constexpr int kFixedSegmentPages = 32;

// FixedTokens (backend/contract/fixed_table.h).
struct FixedTokens {
  std::byte* words;  // of segment 0 of all
  int64_t segment_stride_bytes;
  const uint32_t* segments;  // of the request

  // Bit t: token t of the page is always read.
  __device__ uint32_t& operator[](int page) const {
    const uint32_t segment = segments[page / kFixedSegmentPages];
    return reinterpret_cast<uint32_t*>(
        words + segment * segment_stride_bytes)[page % kFixedSegmentPages];
  }
};

// FixedTable (backend/contract/fixed_table.h).
struct FixedTable {
  FixedKind kind;
  std::byte* words;
  int64_t segment_stride_bytes;
  int64_t words_bytes;  // of a KV head
  // A request's are segments[first_segment[request] + number].
  const int32_t* first_segment;  // [requests]
  const uint32_t* segments;
  std::byte* slots;
  int64_t slot_stride_bytes;
  int64_t queries_bytes;  // of a KV head
  // A request's is slot_of_request[first_slot[request]].
  const int32_t* first_slot;  // [requests]
  const uint32_t* slot_of_request;
  int num_lists;  // of a KV head
  int window_tokens;
  int group_heads;

  // The token behind which a request's choice is fixed; 0: none is.
  __device__ int End(const StepRows& rows, int request) const {
    if (kind == FixedKind::kNone) return 0;
    return kind == FixedKind::kObserved ? rows.num_prompt_tokens[request]
                                        : rows.num_context_tokens[request];
  }
  __device__ FixedTokens Tokens(int request, int kv_head, int list) const {
    constexpr int kListBytes = kFixedSegmentPages * sizeof(uint32_t);
    return {words + kv_head * words_bytes + list * kListBytes,
            segment_stride_bytes, segments + first_segment[request]};
  }
  __device__ bool Has(int request, int kv_head, int list, int token) const {
    constexpr int kTokensAWord = 32;
    const uint32_t word = Tokens(request, kv_head, list)[token / kTokensAWord];
    return (word >> token % kTokensAWord & 1) != 0;
  }
  // [window_tokens, group_heads, k_dim]: of position p at p % window_tokens.
  __device__ std::byte* Queries(int request, int kv_head) const {
    const uint32_t slot = slot_of_request[first_slot[request]];
    return slots + slot * slot_stride_bytes + kv_head * queries_bytes;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_TABLE_CUH_
