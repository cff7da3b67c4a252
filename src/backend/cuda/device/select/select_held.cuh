// HeldChoice: a list's choice by threads that hold its scores.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_HELD_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_HELD_CUH_

#include "backend/cuda/device/attend/held_keys.cuh"
#include "backend/cuda/device/select/select_list.cuh"

namespace winnow::device {

// The same lists as device::FindCut and ListWriter::Write make. What is taken
// passes as bits in shared memory, 32 partitions a word; a thread writes a
// word's picks, behind those of the words before, which its warp counts.
// REQUIRES: as of HeldKeys; all threads of the block call each method, in this
// order.
template <int kThreads>
class HeldChoice {
 public:
  using Keys = HeldKeys<kThreads>;

  // Marks what is read whatever its score.
  __device__ HeldChoice(const ListWriter& list, typename Keys::Scratch& scratch)
      : list_(list),
        scratch_(scratch),
        word_(static_cast<int>(threadIdx.x)),
        num_words_((list.budget.num_partitions + 31) / 32),
        firsts_(list.group_partitions == 32
                    ? 1u
                    : ~0u / ((1u << list.group_partitions) - 1)) {
    if (word_ >= num_words_) return;
    scratch.taken[word_] =
        LowBits(list.budget.num_partitions) &
        (LowBits(list.budget.first_free) | ~LowBits(list.budget.end_free));
  }

  // Marks the best.
  __device__ void Take(Keys& keys) {
    if (keys.FindLeft()) return keys.TakeLeft();
    TakeByDigits(keys);
    __syncthreads();
  }

  // Returns the list's length to one thread, and to the others 0.
  __device__ int Write() const {
    const int first = word_ / 32 * 32;
    if (first >= num_words_) return 0;
    int before = 0;
#pragma unroll 1
    for (int word = word_ % 32; word < first; word += 32) {
      before += __popc(FirstOfGroups(scratch_.taken[word]));
    }
    before = __reduce_add_sync(kWarpMask, before);
    const uint32_t taken = word_ < num_words_ ? scratch_.taken[word_] : 0;
    uint32_t groups = FirstOfGroups(taken);
    const int num_groups = __popc(groups);
    before += SumOfLanesBefore(num_groups);
#pragma unroll 1
    for (int at = before; groups != 0; groups &= groups - 1, ++at) {
      const int bit = __ffs(static_cast<int>(groups)) - 1;
      const int partition = 32 * word_ + bit;
      if (list_.group_pages > 1) {
        list_.WriteRun(at, partition);
      } else {
        list_.WritePage(at, partition >> list_.group_shift, taken >> bit);
      }
    }
    return word_ == num_words_ - 1 ? list_.Length(before + num_groups) : 0;
  }

 private:
  // Those of the word's bits that are partitions before `end`.
  __device__ uint32_t LowBits(int end) const {
    const int count = end - 32 * word_;
    return count <= 0 ? 0u : count >= 32 ? ~0u : (1u << count) - 1;
  }

  // Of a word of partitions that are taken, the first bits of those groups that
  // have one.
  __device__ uint32_t FirstOfGroups(uint32_t word) const {
    for (int step = 1; step < list_.group_partitions; step *= 2) {
      word |= word >> step;
    }
    return word & firsts_;
  }

  // Marks all before the cut, and of those that equal it the first ones.
  __device__ void TakeByDigits(const Keys& keys) {
    const Cut cut = keys.CutOfDigits();
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 2
    for (int word = static_cast<int>(threadIdx.x) / 32; word < num_words_;
         word += kThreads / 32) {
      const int partition = 32 * word + lane;
      const bool is_free = keys.IsFree(partition);
      const uint32_t key = is_free ? keys.KeyOfRow(partition) : ~0u;
      const unsigned better = __ballot_sync(kWarpMask, key < cut.key);
      const unsigned equal = __ballot_sync(kWarpMask, key == cut.key);
      if (lane != 0) continue;
      scratch_.taken[word] |= cut.leaves_equal ? better : better | equal;
      scratch_.equal[word] = equal;
    }
    __syncthreads();
    if (cut.leaves_equal) TakeFirst(cut.num_equal);
  }

  // Marks so many of those that equal the cut.
  __device__ void TakeFirst(int num_equal) {
    const int first = word_ / 32 * 32;
    if (first >= num_words_) return;
    int before = 0;
#pragma unroll 1
    for (int word = word_ % 32; word < first; word += 32) {
      before += __popc(scratch_.equal[word]);
    }
    before = __reduce_add_sync(kWarpMask, before);
    uint32_t equal = word_ < num_words_ ? scratch_.equal[word_] : 0;
    before += SumOfLanesBefore(__popc(equal));
    uint32_t taken = 0;
    for (int left = num_equal - before; equal != 0 && left > 0; --left) {
      taken |= equal & (0u - equal);
      equal &= equal - 1;
    }
    if (taken != 0) scratch_.taken[word_] |= taken;
  }

  const ListWriter& list_;
  typename Keys::Scratch& scratch_;
  const int word_;  // this thread's
  const int num_words_;
  const uint32_t firsts_;  // bits of the groups' first partitions
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SELECT_HELD_CUH_
