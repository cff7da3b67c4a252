// HeldChoice: a list's choice by threads that hold its keys.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_HELD_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_HELD_CUH_

#include "backend/cuda/device/held_keys.cuh"
#include "backend/cuda/device/piece.cuh"
#include "backend/cuda/device/select_list.cuh"

namespace winnow::device {

// The same lists as device::FindCut and ListWriter::Write make, in half of
// their barriers: taken partitions pass as a warp's ballots, and their numbers
// as bytes, of which every warp sums those before its own.
// REQUIRES: as of HeldKeys; all threads of the block call it.
template <int kKeys, int kThreads>
class HeldChoice {
 public:
  using Keys = HeldKeys<kKeys, kThreads>;

  __device__ HeldChoice(const Keys& keys, const ListWriter& list,
                        typename Keys::Scratch& scratch)
      : keys_(keys),
        list_(list),
        scratch_(scratch),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        firsts_(list.group_partitions == 32
                    ? 1u
                    : ~0u / ((1u << list.group_partitions) - 1)) {}

  // Returns the list's length.
  __device__ int Write() {
    const uint32_t taken = TakenWords();
    int total = 0;
    const int before =
        SumBefore(scratch_.num_groups, __popc(FirstOfGroups(taken)), total);
    const unsigned lower = (1u << lane_) - 1;
    unsigned rounds = __ballot_sync(kWarpMask, taken != 0);
#pragma unroll 1
    for (; rounds != 0; rounds &= rounds - 1) {
      const int round = __ffs(rounds) - 1;
      const uint32_t word = __shfl_sync(kWarpMask, taken, round);
      const int at = __shfl_sync(kWarpMask, before, round) * list_.group_pages;
      const uint32_t groups = FirstOfGroups(word);
      const int partition = keys_.First(round);
      if (list_.group_pages > 1) {
        list_.WriteRuns(at, partition, word);
      } else if ((groups >> lane_ & 1) != 0) {
        list_.WritePage(at + __popc(groups & lower),
                        (partition + lane_) >> list_.group_shift,
                        word >> lane_);
      }
    }
    return list_.Length(total);
  }

 private:
  // Of a word of partitions that are taken, the first bits of those groups that
  // have one.
  __device__ uint32_t FirstOfGroups(uint32_t word) const {
    for (int step = 1; step < list_.group_partitions; step *= 2) {
      word |= word >> step;
    }
    return word & firsts_;
  }

  // The sum of four bytes, and of others in its halves' place.
  __device__ static uint32_t AddBytes(uint32_t sum, uint32_t bytes) {
    return sum + (bytes & 0x00ff00ffu) + (bytes >> 8 & 0x00ff00ffu);
  }
  __device__ static int SumOfHalves(uint32_t sum) {
    return static_cast<int>((sum & 0xffffu) + (sum >> 16));
  }

  // Lane k has `value` of the warp's word of round k: the sum of those of the
  // words before, and of all.
  __device__ int SumBefore(uint8_t (&of_words)[kMaxHeldKeys][Keys::kWarps],
                           int value, int& total) const {
    using Bytes = Piece<uint32_t, Keys::kWarps / 4>;  // of a round
    const bool has_round = lane_ < kKeys;
    if (has_round) of_words[lane_][warp_] = static_cast<uint8_t>(value);
    __syncthreads();
    uint32_t of_round = 0, of_warps = 0;
    if (has_round) {
      const Bytes bytes = *reinterpret_cast<const Bytes*>(of_words[lane_]);
#pragma unroll
      for (int i = 0; i < Keys::kWarps / 4; ++i) {
        of_round = AddBytes(of_round, bytes.numbers[i]);
        // Of the warps before this one.
        const int count = min(max(warp_ - 4 * i, 0), 4);
        const uint32_t mask = count == 4 ? ~0u : (1u << 8 * count) - 1;
        of_warps = AddBytes(of_warps, bytes.numbers[i] & mask);
      }
    }
    const int in_round = SumOfHalves(of_round);
    const int before = SumOfLanesBefore(in_round);
    total = __shfl_sync(kWarpMask, before + in_round, 31);
    return before + SumOfHalves(of_warps);
  }

  // Lane k has the partitions that the warp takes in round k, as bits.
  __device__ uint32_t TakenWords() const {
    const Cut& cut = list_.cut;
    // The last key that is taken wherever it stands. None is 0.
    const uint32_t last = cut.leaves_equal ? cut.key - 1 : cut.key;
    uint32_t mine = 0;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      const bool taken = keys_.IsFree(k) ? keys_.Key(k) <= last
                                         : keys_.First(k) + lane_ <
                                               list_.budget.num_partitions;
      const unsigned word = __ballot_sync(kWarpMask, taken);
      if (lane_ == k) mine = word;
    }
    return cut.leaves_equal ? mine | FirstOfEqual() : mine;
  }

  // Likewise of those that equal the cut: the first ones, of all warps.
  __device__ uint32_t FirstOfEqual() const {
    uint32_t equal = 0;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      const unsigned word = __ballot_sync(
          kWarpMask, keys_.IsFree(k) && keys_.Key(k) == list_.cut.key);
      if (lane_ == k) equal = word;
    }
    int total = 0;
    int left = list_.cut.num_equal -
               SumBefore(scratch_.num_equal, __popc(equal), total);
    uint32_t taken = 0;
    for (; equal != 0 && left > 0; --left) {
      taken |= equal & (0u - equal);
      equal &= equal - 1;
    }
    return taken;
  }

  const Keys& keys_;
  const ListWriter& list_;
  typename Keys::Scratch& scratch_;
  const int lane_, warp_;
  const uint32_t firsts_;  // bits of the groups' first partitions
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_HELD_CUH_
