// HeldChoice: a list's choice by threads that hold its keys.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_HELD_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_HELD_CUH_

#include "backend/cuda/device/select_list.cuh"

namespace winnow::device {

constexpr int kHeldKeys = 17;  // a thread: of 128K tokens by 16, and more
constexpr int kMaxHeldPartitions = kHeldKeys * kChooseThreads;
constexpr int kHeldDigitBits = 8;
constexpr int kHeldDigits = 1 << kHeldDigitBits;
constexpr int kHeldPasses = 32 / kHeldDigitBits;

// Each pass has counts of its own, and each sum its own place: what is written
// once is not to be waited for again.
struct alignas(16) HeldScratch {
  int counts[kHeldPasses][kHeldDigits];
  unsigned differs[kChooseWarps];
  int num_equal[kChooseWarps];
  int num_groups[kChooseWarps];
};

// The same lists as FindCut and ListWriter::Write make, in a third of their
// barriers: a digit is found by every warp for itself, in counts that no one
// has to clear, and taken partitions pass as a warp's ballots. (The keys in
// shared memory, each pass cleared, counted and summed over warps by itself,
// took 19 us a layer of 32 lists of 4,096 pages on an H200.) Warps have
// consecutive partitions, 32 a round. REQUIRES: partitions are rows, at most
// kMaxHeldPartitions of them, and scores choose among them; all threads of the
// block call each method, FindCut first.
class HeldChoice {
 public:
  __device__ HeldChoice(const RowBudget& budget, int group_partitions,
                        HeldScratch& scratch)
      : budget_(budget),
        scratch_(scratch),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        rounds_((budget.num_partitions + kChooseThreads - 1) / kChooseThreads),
        first_(warp_ * rounds_ * 32),
        group_partitions_(group_partitions),
        firsts_(group_partitions == 32 ? 1u
                                       : ~0u / ((1u << group_partitions) - 1)) {
    int* counts = scratch.counts[0];
    for (int i = threadIdx.x; i < kHeldPasses * kHeldDigits;
         i += kChooseThreads) {
      counts[i] = 0;
    }
#pragma unroll
    for (int k = 0; k < kHeldKeys; ++k) {
      const int partition = first_ + 32 * k + lane_;
      if (k < rounds_ && partition >= budget.first_free &&
          partition < budget.end_free) {
        is_free_ |= 1u << k;
      }
    }
  }

  // Where the best budget.count of the free partitions end.
  __device__ Cut FindCut(const float* scores,  // f32 [num_rows]
                         int num_rows) {
    const auto key_of = [&](int row) {
      return KeyOf(row < num_rows ? scores[row] : -INFINITY);
    };
    float of_rows[kHeldKeys];
#pragma unroll
    for (int k = 0; k < kHeldKeys; ++k) {
      const int row = first_ + 32 * k + lane_;
      of_rows[k] =
          (is_free_ >> k & 1) != 0 && row < num_rows ? scores[row] : -INFINITY;
    }
    const uint32_t some_key = key_of(budget_.first_free);
    unsigned differs = 0;
#pragma unroll
    for (int k = 0; k < kHeldKeys; ++k) {
      keys_[k] = KeyOf(of_rows[k]);
      if ((is_free_ >> k & 1) != 0) differs |= keys_[k] ^ some_key;
    }
    differs = __reduce_or_sync(kWarpMask, differs);
    if (lane_ == 0) scratch_.differs[warp_] = differs;
    __syncthreads();
    differs = __reduce_or_sync(
        kWarpMask, lane_ < kChooseWarps ? scratch_.differs[lane_] : 0u);
    return CutFrom(some_key, 32 - __clz(static_cast<int>(differs)));
  }

  // Returns the list's length.
  __device__ int Write(const ListWriter& list) {
    const Cut& cut = list.cut;
    const uint32_t taken = TakenWords(cut);
    const int in_warp =
        __reduce_add_sync(kWarpMask, __popc(FirstOfGroups(taken)));
    if (lane_ == 0) scratch_.num_groups[warp_] = in_warp;
    __syncthreads();
    int total = 0;
    int at = SumOfWarps(scratch_.num_groups, total) * list.group_pages;
    const unsigned lower = (1u << lane_) - 1;
#pragma unroll 1
    for (int k = 0; k < rounds_; ++k) {
      const uint32_t word = __shfl_sync(kWarpMask, taken, k);
      const uint32_t groups = FirstOfGroups(word);
      const int partition = first_ + 32 * k;
      if (list.group_pages > 1) {
        list.WriteRuns(at, partition, word);
      } else if ((groups >> lane_ & 1) != 0) {
        const int place = at + __popc(groups & lower);
        const int page = (partition + lane_) / group_partitions_;
        list.WritePage(place, page, word >> lane_);
      }
      at += __popc(groups) * list.group_pages;
    }
    return list.Length(total);
  }

 private:
  // Of a word of partitions that are taken, the first bits of those groups that
  // have one.
  __device__ uint32_t FirstOfGroups(uint32_t word) const {
    for (int step = 1; step < group_partitions_; step *= 2) {
      word |= word >> step;
    }
    return word & firsts_;
  }

  // The sum over the warps before this one, and over all.
  __device__ int SumOfWarps(const int* of_warps, int& total) const {
    const int value = lane_ < kChooseWarps ? of_warps[lane_] : 0;
    total = __reduce_add_sync(kWarpMask, value);
    return __reduce_add_sync(kWarpMask, lane_ < warp_ ? value : 0);
  }

  struct Digit {
    int digit, before, count;
  };

  // The digit that the need-th least key has, by each warp.
  __device__ Digit FindDigit(const int* counts, int need) const {
    constexpr int kEach = kHeldDigits / 32;
    static_assert(kEach == 8);
    // In two words of four: one by one eight lanes would meet in each bank.
    const int4* words = reinterpret_cast<const int4*>(counts) + 2 * lane_;
    const int4 low = words[0], high = words[1];
    const int of_digits[kEach] = {low.x,  low.y,  low.z,  low.w,
                                  high.x, high.y, high.z, high.w};
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += of_digits[i];
    int before = SumOfLanesBefore(sum);
    const bool is_here = before < need && need <= before + sum;
    int digit = 0, count = of_digits[0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
      if (digit == i - 1 && before + count < need) {
        before += count;
        digit = i;
        count = of_digits[i];
      }
    }
    const int from = __ffs(__ballot_sync(kWarpMask, is_here)) - 1;
    return {__shfl_sync(kWarpMask, kEach * lane_ + digit, from),
            __shfl_sync(kWarpMask, before, from),
            __shfl_sync(kWarpMask, count, from)};
  }

  // A digit at a time, from the first bit in which keys differ.
  __device__ Cut CutFrom(uint32_t some_key, int shift) {
    uint32_t mask = shift == 32 ? 0u : ~0u << shift;
    uint32_t known = some_key & mask;
    int need = budget_.count;
#pragma unroll 1
    for (int pass = 0; shift > 0; ++pass) {
      int* counts = scratch_.counts[pass];
      const int num_bits = min(shift, kHeldDigitBits);
      shift -= num_bits;
      const uint32_t digits = (1u << num_bits) - 1;
#pragma unroll
      for (int k = 0; k < kHeldKeys; ++k) {
        if ((is_free_ >> k & 1) != 0 && (keys_[k] & mask) == known) {
          atomicAdd(&counts[keys_[k] >> shift & digits], 1);
        }
      }
      __syncthreads();
      const Digit found = FindDigit(counts, need);
      known |= static_cast<uint32_t>(found.digit) << shift;
      mask |= digits << shift;
      need -= found.before;
      // The digit is taken whole: lower ones do not matter.
      if (found.count == need) return {known | ~mask, need, false};
    }
    return {known, need, true};
  }

  // Lane k has the partitions that the warp takes in round k, as bits.
  __device__ uint32_t TakenWords(const Cut& cut) {
    int num_equal = cut.leaves_equal ? NumEqualBefore(cut.key) : 0;
    const unsigned lower = (1u << lane_) - 1;
    uint32_t mine = 0;
#pragma unroll
    for (int k = 0; k < kHeldKeys; ++k) {
      if (k >= rounds_) break;
      const bool is_free = (is_free_ >> k & 1) != 0;
      bool taken = first_ + 32 * k + lane_ < budget_.num_partitions;
      if (is_free) taken = keys_[k] <= cut.key;
      if (cut.leaves_equal) {
        const bool is_equal = is_free && keys_[k] == cut.key;
        const unsigned equal = __ballot_sync(kWarpMask, is_equal);
        if (is_equal) taken = num_equal + __popc(equal & lower) < cut.num_equal;
        num_equal += __popc(equal);
      }
      const unsigned word = __ballot_sync(kWarpMask, taken);
      if (lane_ == k) mine = word;
    }
    return mine;
  }

  // Partitions of the warps before this one whose keys equal `key`.
  __device__ int NumEqualBefore(uint32_t key) {
    int num_equal = 0;
#pragma unroll
    for (int k = 0; k < kHeldKeys; ++k) {
      num_equal += (is_free_ >> k & 1) != 0 && keys_[k] == key ? 1 : 0;
    }
    num_equal = __reduce_add_sync(kWarpMask, num_equal);
    if (lane_ == 0) scratch_.num_equal[warp_] = num_equal;
    __syncthreads();
    int total = 0;
    return SumOfWarps(scratch_.num_equal, total);
  }

  const RowBudget& budget_;
  HeldScratch& scratch_;
  const int lane_, warp_;
  const int rounds_;            // of partitions
  const int first_;             // partition of the warp
  const int group_partitions_;  // divides 32
  const uint32_t firsts_;       // bits of the groups' first partitions
  uint32_t is_free_ = 0;        // bit k: this lane's partition of round k
  uint32_t keys_[kHeldKeys] = {};
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_HELD_CUH_
