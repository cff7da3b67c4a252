// MaskList: one list of picks, made as a mask of tokens a page.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_MASK_LIST_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_MASK_LIST_CUH_

#include "backend/cuda/device/select/select_cut.cuh"
#include "backend/cuda/device/select/select_list.cuh"

namespace winnow::device {

// A row of the step and one of its lists.
struct MaskPlace {
  int request, kv_head;
  int list;  // of the KV head's
  int context;
  uint2* picks;  // [capacity]
  int64_t capacity;
  int32_t* estimates;  // [estimates_capacity], or null
  int64_t estimates_capacity;
};

// What a list is made in.
struct ListMemory {
  uint32_t* keys;   // u32 [free partitions, or clusters]
  uint32_t* masks;  // u32 [pages]
  CutScratch& scratch;
};

// What a list came to.
struct MaskCounts {
  int num_picks;
  int num_tokens;  // in the picks
  int num_estimates;
};

// The tokens of a page that are in [begin, end).
__device__ inline uint32_t TokensOfPage(int page, int begin, int end) {
  const int from = max(begin - page * kTokensAPage, 0);
  const int to = min(end - page * kTokensAPage, kTokensAPage);
  if (from >= to) return 0;
  return ~0u >> (kTokensAPage - (to - from)) << from;
}

// Of `count` things the warp's, [first, end): warps have consecutive ones, and
// their lanes one of 32 each, so that what equals a cut is taken in ascending
// order and lists are written so.
struct WarpRange {
  int first, end;

  __device__ explicit WarpRange(int count) {
    const int each = (count + kChooseThreads - 1) / kChooseThreads * 32;
    first = min(static_cast<int>(threadIdx.x) / 32 * each, count);
    end = min(first + each, count);
  }
};

// What a warp takes of its things by a cut, 32 at a time.
struct CutTaker {
  const Cut& cut;
  int before;  // what weighs before the next ones and equals the cut

  // How much of this lane's thing is taken: a part of the last one's weight.
  __device__ int Take(uint32_t key, int weight) {
    if (!cut.leaves_equal) return key <= cut.key ? weight : 0;
    const int equal = key == cut.key ? weight : 0;
    const int of_lanes = SumOfLanesBefore(equal);
    const int left = cut.num_equal - before - of_lanes;
    before += __shfl_sync(kWarpMask, of_lanes + equal, 31);
    if (key == cut.key) return min(max(left, 0), weight);
    return key < cut.key ? weight : 0;
  }
};

// What weighs and equals the cut in the warps before this one, thing i
// weight(i). All threads of the block call it.
template <typename Weight>
__device__ int EqualBefore(const Cut& cut, const uint32_t* keys,
                           const WarpRange& range, int* of_warps,
                           Weight&& weight) {
  if (!cut.leaves_equal) return 0;
  int sum = 0;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = range.first + lane; i < range.end; i += 32) {
    if (keys[i] == cut.key) sum += weight(i);
  }
  sum = __reduce_add_sync(kWarpMask, sum);
  int total = 0;
  return SumOfWarpsBefore(sum, of_warps, total);
}

// Partitions that a cut may take: key i is that of partition first + i.
struct KeyedPartitions {
  const uint32_t* keys;  // [count]
  int count;
  int first;
  int block_tokens;
};

// Adds those that a cut takes to masks[page], whatever holds these. By a block.
template <typename Masks>
__device__ void MarkPartitions(const KeyedPartitions& of, const Cut& cut,
                               const Masks& masks, int* of_warps) {
  const WarpRange range(of.count);
  CutTaker taker = {
      cut, EqualBefore(cut, of.keys, range, of_warps, [](int) { return 1; })};
  const int in_page = min(of.block_tokens, kTokensAPage);
  const uint32_t of_block = ~0u >> (kTokensAPage - in_page);
  for (int first = range.first; first < range.end; first += 32) {
    const int i = first + static_cast<int>(threadIdx.x) % 32;
    const bool is_in = i < range.end;
    if (taker.Take(is_in ? of.keys[i] : ~0u, is_in ? 1 : 0) == 0) continue;
    const int token = (of.first + i) * of.block_tokens;
    const int page = token / kTokensAPage;
    atomicOr(&masks[page], of_block << token % kTokensAPage);
    for (int i = 1; i < of.block_tokens / kTokensAPage; ++i) {
      masks[page + i] = ~0u;
    }
  }
}

// From masks to picks. By a block. REQUIRES: a __syncthreads() since the last
// mask.
__device__ inline MaskCounts WritePicks(const uint32_t* masks,
                                        const MaskPlace& place, int* of_warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const WarpRange range((place.context + kTokensAPage - 1) / kTokensAPage);
  int count = 0, num_tokens = 0;
  for (int page = range.first + lane; page < range.end; page += 32) {
    count += masks[page] != 0 ? 1 : 0;
    num_tokens += __popc(masks[page]);
  }
  count = __reduce_add_sync(kWarpMask, count);
  num_tokens = __reduce_add_sync(kWarpMask, num_tokens);
  MaskCounts counts = {};
  int at = SumOfWarpsBefore(count, of_warps, counts.num_picks);
  if (counts.num_picks > place.capacity) __trap();
  SumOfWarpsBefore(num_tokens, of_warps, counts.num_tokens);
  for (int first = range.first; first < range.end; first += 32) {
    const int page = first + lane;
    const uint32_t tokens = page < range.end ? masks[page] : 0;
    const unsigned picked = __ballot_sync(kWarpMask, tokens != 0);
    if (tokens != 0) {
      place.picks[at + __popc(picked & ((1u << lane) - 1))] =
          make_uint2(page, tokens);
    }
    at += __popc(picked);
  }
  return counts;
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_MASK_LIST_CUH_
