// From chosen partitions to a list of picks, in ascending order.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_LIST_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_LIST_CUH_

#include "backend/cuda/device/select/select_cut.cuh"
#include "backend/cuda/device/select/select_row.cuh"

namespace winnow::device {

constexpr int kTokensAPage = 32;
// As in backend/contract/picks.h: the list is not written out.
constexpr int32_t kEveryPage = -1;

// PickLists (backend/contract/picks.h) of a run of rows.
struct Lists {
  uint2* picks;                                 // [rows, lists, capacity]
  int32_t* num_picks;                           // [rows, lists]
  int32_t* num_lists;                           // [rows]
  int32_t* num_kept;                            // [rows, lists], or null
  int64_t picks_row_stride, picks_list_stride;  // in picks
  int64_t num_picks_stride, num_kept_stride;
  int64_t capacity;
  int first_row;           // of the step
  int32_t* estimates;      // [rows, lists, capacity of their own], or null
  int32_t* num_estimates;  // [rows, lists], or null
  int64_t estimates_row_stride, estimates_list_stride, num_estimates_stride;
  int64_t estimates_capacity;

  __device__ uint2* List(int row, int list) const {
    return picks + (row - first_row) * picks_row_stride +
           list * picks_list_stride;
  }
  __device__ int32_t& NumPicks(int row, int list) const {
    return num_picks[(row - first_row) * num_picks_stride + list];
  }
  __device__ int32_t& NumKept(int row, int list) const {
    return num_kept[(row - first_row) * num_kept_stride + list];
  }
  __device__ int32_t* Estimates(int row, int list) const {
    return estimates + (row - first_row) * estimates_row_stride +
           list * estimates_list_stride;
  }
  // Where lists may estimate.
  __device__ void SetNumEstimates(int row, int list, int count) const {
    if (num_estimates == nullptr) return;
    num_estimates[(row - first_row) * num_estimates_stride + list] = count;
  }
};

// Writes one list, by a block. A group is what ends in a run of picks of its
// own: the partitions of a page, or one partition of one page or more. A warp
// has consecutive groups, 32 at a time, so that keys are read and picks written
// side by side. Where no free partition is taken, those between the sinks and
// the last ones are passed over, of which a window leaves out nearly all.
struct ListWriter {
  const RowBudget& budget;
  int context;
  int block_tokens;      // of a partition
  const uint32_t* keys;  // u32 [free partitions]
  Cut cut;
  uint2* picks;  // [capacity]
  int64_t capacity;
  int num_copies;       // lists that get the same
  int64_t copy_stride;  // in picks
  // Partitions a group and pages a group, of which one is 1.
  int group_partitions, group_pages;
  int group_shift;  // log2 of group_partitions, which divides a page's tokens
  int num_groups;
  int num_front, num_passed;  // groups before those passed over, and these

  __device__ ListWriter(const Selector& selector, const RowBudget& of_row,
                        int of_context)
      : budget(of_row),
        context(of_context),
        block_tokens(selector.block_tokens),
        group_partitions(max(kTokensAPage / block_tokens, 1)),
        group_pages(max(block_tokens / kTokensAPage, 1)),
        group_shift(Log2(group_partitions)),
        num_groups((of_row.num_partitions + group_partitions - 1) >>
                   group_shift),
        num_front((of_row.first_free + group_partitions - 1) >> group_shift),
        num_passed(max((of_row.end_free >> group_shift) - num_front, 0)) {
    if (of_row.count > 0) num_passed = 0;
  }

  // REQUIRES: a power of two.
  __device__ static int Log2(int power) { return __ffs(power) - 1; }

  // The i-th group that is looked at.
  __device__ int Group(int i) const {
    return i < num_front ? i : i + num_passed;
  }

  // Whether a partition is taken; num_equal: how many before it equal the cut,
  // where that matters. Without keys all free ones are, or none.
  __device__ bool Takes(int partition, int& num_equal) const {
    if (partition < budget.first_free || partition >= budget.end_free) {
      return partition < budget.num_partitions;
    }
    if (!budget.NeedsScores()) return budget.count > 0;
    const uint32_t key = keys[partition - budget.first_free];
    if (key != cut.key || !cut.leaves_equal) return key <= cut.key;
    return num_equal++ < cut.num_equal;
  }

  // Of the partitions [first, first + group_partitions) those that are taken,
  // as bits.
  __device__ uint32_t Taken(int first, int num_equal) const {
    uint32_t taken = 0;
#pragma unroll 1
    for (int i = 0; i < group_partitions; ++i) {
      taken |= (Takes(first + i, num_equal) ? 1u : 0u) << i;
    }
    return taken;
  }

  // How many of a group's partitions equal the cut.
  __device__ int NumEqual(int first) const {
    int num_equal = 0;
    const int end = min(first + group_partitions, budget.end_free);
    for (int i = max(first, budget.first_free); i < end; ++i) {
      num_equal += keys[i - budget.first_free] == cut.key ? 1 : 0;
    }
    return num_equal;
  }

  __device__ void WritePick(int64_t at, int page, uint32_t tokens) const {
    if (at >= capacity) __trap();  // The list was to hold the longest.
#pragma unroll 1
    for (int copy = 0; copy < num_copies; ++copy) {
      picks[copy * copy_stride + at] = make_uint2(page, tokens);
    }
  }

  // Tokens of a page that are not behind the row; none at 0.
  __device__ uint32_t Visible(int page) const {
    const int left = context - page * kTokensAPage;
    if (left >= kTokensAPage) return ~0u;
    return left <= 0 ? 0u : (1u << left) - 1;
  }

  // A group of several partitions, or of one page: a pick.
  __device__ void WritePage(int64_t at, int page, uint32_t taken) const {
    uint32_t tokens = ~0u;
    if (group_partitions > 1) {
      tokens = 0;
      const uint32_t of_block = (1u << block_tokens) - 1;
#pragma unroll 1
      for (int i = 0; i < group_partitions; ++i) {
        if (taken >> i & 1) tokens |= of_block << (i * block_tokens);
      }
    }
    WritePick(at, page, tokens & Visible(page));
  }

  // The pages of each of a warp's chosen groups, lanes over pages: bit b is
  // group `first` + b of those that are looked at.
  __device__ void WriteRuns(int64_t at, int first, unsigned chosen) const {
    for (; chosen != 0; chosen &= chosen - 1, at += group_pages) {
      const int first_page = Group(first + __ffs(chosen) - 1) * group_pages;
      for (int i = threadIdx.x % 32; i < group_pages; i += 32) {
        const uint32_t tokens = Visible(first_page + i);
        if (tokens != 0) WritePick(at + i, first_page + i, tokens);
      }
    }
  }

  // The pages of a chosen group that stands behind so many, by one thread.
  __device__ void WriteRun(int num_before, int group) const {
#pragma unroll 1
    for (int i = 0; i < group_pages; ++i) {
      const uint32_t tokens = Visible(group * group_pages + i);
      if (tokens == 0) return;
      WritePick(int64_t{num_before} * group_pages + i, group * group_pages + i,
                tokens);
    }
  }

  // f(first of 32, this lane's taken partitions of its group) for each of the
  // warp's groups, [first, end) of those that are looked at; the bits are those
  // of the partitions.
  template <typename F>
  __device__ void ForEachGroup(int first, int end, int num_equal, F&& f) const {
#pragma unroll 1
    for (int i = first; i < end; i += 32) {
      const int partition =
          Group(i + static_cast<int>(threadIdx.x) % 32) * group_partitions;
      int before = num_equal;
      if (cut.leaves_equal) {
        const int in_group = NumEqual(partition);
        const int in_lanes = SumOfLanesBefore(in_group);
        before += in_lanes;
        num_equal += __shfl_sync(kWarpMask, in_lanes + in_group, 31);
      }
      f(i, Taken(partition, before));
    }
  }

  // Returns the list's length. All threads of the block call it.
  template <int kThreads>
  __device__ int Write(int* of_warps) const {
    constexpr int kWarps = kThreads / 32;
    const int num_looked_at = num_groups - num_passed;
    const int each = (num_looked_at + kThreads - 1) / kThreads * 32;
    const int first = static_cast<int>(threadIdx.x) / 32 * each;
    const int end = min(first + each, num_looked_at);
    int num_equal = 0, total = 0;
    if (cut.leaves_equal) {
      for (int group = first; group < end; group += 32) {
        num_equal += NumEqual((group + static_cast<int>(threadIdx.x) % 32) *
                              group_partitions);
      }
      num_equal = __reduce_add_sync(kWarpMask, num_equal);
      num_equal = SumOfWarpsBefore<kWarps>(num_equal, of_warps, total);
    }
    int count = 0;
    ForEachGroup(first, end, num_equal, [&](int, uint32_t taken) {
      count += __popc(__ballot_sync(kWarpMask, taken != 0));
    });
    int64_t at =
        int64_t{SumOfWarpsBefore<kWarps>(count, of_warps, total)} * group_pages;
    ForEachGroup(first, end, num_equal, [&](int i, uint32_t taken) {
      const unsigned chosen = __ballot_sync(kWarpMask, taken != 0);
      if (group_pages > 1) {
        WriteRuns(at, i, chosen);
      } else if (taken != 0) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const unsigned lower = (1u << lane) - 1;
        WritePage(at + __popc(chosen & lower), Group(i + lane), taken);
      }
      at += int64_t{__popc(chosen)} * group_pages;
    });
    return Length(total);
  }

  // The list's length, of so many groups. The last is the row's own, and may
  // end early.
  __device__ int Length(int num_taken) const {
    const int num_pages = (context + kTokensAPage - 1) / kTokensAPage;
    const int before_last = (num_groups - 1) * group_pages;
    return (num_taken - 1) * group_pages + num_pages - before_last;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_LIST_CUH_
