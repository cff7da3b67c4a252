// From chosen partitions to a list of picks, in ascending order.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_LIST_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_LIST_CUH_

#include "backend/cuda/device/select_cut.cuh"
#include "backend/cuda/device/select_row.cuh"

namespace winnow::device {

constexpr int kTokensAPage = 32;
// As in backend/picks.h: the list is not written out.
constexpr int32_t kEveryPage = -1;

// PickLists (backend/picks.h) of a run of rows.
struct Lists {
  uint2* picks;                                 // [rows, lists, capacity]
  int32_t* num_picks;                           // [rows, lists]
  int32_t* num_lists;                           // [rows]
  int32_t* num_kept;                            // [rows, lists], or null
  int64_t picks_row_stride, picks_list_stride;  // in picks
  int64_t num_picks_stride, num_kept_stride;
  int64_t capacity;
  int first_row;  // of the step

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
};

// Writes one list, by a block. A group is what ends in a run of picks of its
// own: the partitions of a page, or one partition of one page or more. A warp
// has consecutive groups, 32 at a time, so that keys are read and picks written
// side by side.
struct ListWriter {
  const Selector& selector;
  const RowBudget& budget;
  int context;
  const uint32_t* keys;  // u32 [free partitions]
  Cut cut;
  uint2* picks;  // [capacity]
  int64_t capacity;
  int num_copies;       // lists that get the same
  int64_t copy_stride;  // in picks

  __device__ int PartitionsAGroup() const {
    return selector.block_tokens < kTokensAPage
               ? kTokensAPage / selector.block_tokens
               : 1;
  }
  __device__ int PagesAGroup() const {
    return selector.block_tokens < kTokensAPage
               ? 1
               : selector.block_tokens / kTokensAPage;
  }

  // Of the partitions [first, first + count) those that are taken, as bits;
  // num_equal: how many before them equal the cut. Without keys all free ones
  // are, or none.
  __device__ uint32_t Taken(int first, int count, int& num_equal) const {
    uint32_t taken = 0;
    for (int i = 0; i < count; ++i) {
      const int partition = first + i;
      bool takes = partition < budget.num_partitions;
      if (partition >= budget.first_free && partition < budget.end_free) {
        takes = budget.count > 0;
        if (budget.NeedsScores()) {
          const uint32_t key = keys[partition - budget.first_free];
          const bool equal = cut.leaves_equal && key == cut.key;
          takes = key < cut.key || (key == cut.key && !cut.leaves_equal) ||
                  (equal && num_equal < cut.num_equal);
          num_equal += equal ? 1 : 0;
        }
      }
      taken |= static_cast<uint32_t>(takes) << i;
    }
    return taken;
  }

  // How many of the partitions equal the cut, where that matters.
  __device__ int NumEqual(int first, int count) const {
    int num_equal = 0;
    const int end = min(first + count, budget.end_free);
    for (int i = max(first, budget.first_free); i < end; ++i) {
      num_equal += keys[i - budget.first_free] == cut.key ? 1 : 0;
    }
    return num_equal;
  }

  __device__ void WritePick(int64_t at, int page, uint32_t tokens) const {
    if (at >= capacity) __trap();  // The list was to hold the longest.
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
    const int block = selector.block_tokens;
    uint32_t tokens = ~0u;
    if (block < kTokensAPage) {
      tokens = 0;
      const uint32_t of_block = (1u << block) - 1;
      for (int i = 0; i < PartitionsAGroup(); ++i) {
        if (taken >> i & 1) tokens |= of_block << (i * block);
      }
    }
    WritePick(at, page, tokens & Visible(page));
  }

  // The pages of each of a warp's chosen groups, lanes over pages.
  __device__ void WriteRuns(int64_t at, int first_group,
                            unsigned chosen) const {
    const int num_pages = PagesAGroup();
    for (; chosen != 0; chosen &= chosen - 1, at += num_pages) {
      const int first_page = (first_group + __ffs(chosen) - 1) * num_pages;
      for (int i = threadIdx.x % 32; i < num_pages; i += 32) {
        const uint32_t tokens = Visible(first_page + i);
        if (tokens != 0) WritePick(at + i, first_page + i, tokens);
      }
    }
  }

  // f(first group of 32, this lane's taken partitions of its group) for each of
  // the warp's groups; the bits are those of the partitions.
  template <typename F>
  __device__ void ForEachGroup(int first, int end, int num_equal, F&& f) const {
    const int of_group = PartitionsAGroup();
    for (int group = first; group < end; group += 32) {
      const int partition = (group + threadIdx.x % 32) * of_group;
      int before = num_equal;
      if (cut.leaves_equal) {
        const int in_group = NumEqual(partition, of_group);
        const int in_lanes = SumOfLanesBefore(in_group);
        before += in_lanes;
        num_equal += __shfl_sync(kWarpMask, in_lanes + in_group, 31);
      }
      f(group, Taken(partition, of_group, before));
    }
  }

  // Returns the list's length. All threads of the block call it.
  __device__ int Write(int* of_warps) const {
    const int of_group = PartitionsAGroup();
    const int num_groups = (budget.num_partitions + of_group - 1) / of_group;
    const int each = (num_groups + kChooseThreads - 1) / kChooseThreads * 32;
    const int first = threadIdx.x / 32 * each;
    const int end = min(first + each, num_groups);
    int num_equal = 0, total = 0;
    if (cut.leaves_equal) {
      for (int group = first; group < end; group += 32) {
        num_equal += NumEqual((group + threadIdx.x % 32) * of_group, of_group);
      }
      num_equal = __reduce_add_sync(kWarpMask, num_equal);
      num_equal = SumOfWarpsBefore(num_equal, of_warps, total);
    }
    int count = 0;
    ForEachGroup(first, end, num_equal, [&](int, uint32_t taken) {
      count += __popc(__ballot_sync(kWarpMask, taken != 0));
    });
    int64_t at =
        int64_t{SumOfWarpsBefore(count, of_warps, total)} * PagesAGroup();
    ForEachGroup(first, end, num_equal, [&](int group, uint32_t taken) {
      const unsigned chosen = __ballot_sync(kWarpMask, taken != 0);
      if (PagesAGroup() > 1) {
        WriteRuns(at, group, chosen);
      } else if (taken != 0) {
        const unsigned lower = (1u << threadIdx.x % 32) - 1;
        WritePage(at + __popc(chosen & lower), group + threadIdx.x % 32, taken);
      }
      at += int64_t{__popc(chosen)} * PagesAGroup();
    });
    // The last group is the row's own, and may end early.
    const int num_pages = (context + kTokensAPage - 1) / kTokensAPage;
    const int before_last = (num_groups - 1) * PagesAGroup();
    return (total - 1) * PagesAGroup() + num_pages - before_last;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_LIST_CUH_
