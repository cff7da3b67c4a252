// HeldKeys: a list's scores in a block's registers, and where the best end.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_HELD_KEYS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_HELD_KEYS_CUH_

#include "backend/cuda/device/select/select_cut.cuh"
#include "backend/cuda/device/select/select_row.cuh"

namespace winnow::device {

// Scores of a thread, at most; lists of few partitions pass over those behind
// the few: a block runs its code once, and so takes about as long as that takes
// to arrive.
constexpr int kMaxHeldKeys = 17;
constexpr int kFewHeldKeys = 9;
// Of a block whose threads hold lists of 128K tokens by 32, and of one for
// lists that are longer.
constexpr int kHeldThreads = 256;
constexpr int kHeldDigitBits = 8;
constexpr int kHeldDigits = 1 << kHeldDigitBits;
constexpr int kHeldPasses = 32 / kHeldDigitBits;
// Scores that may be left when the cut is known to lie among them.
constexpr int kMaxLeft = 512;
// Looks at the samples, each of which narrows a bound to a 32nd.
constexpr int kMaxLooks = 3;

// Each pass, and each look, has counts of its own: what is written once is not
// to be waited for again.
template <int kWarps>
struct alignas(16) HeldScratch {
  static constexpr int kMaxWords = kMaxHeldKeys * kWarps;
  // Attend by fours.
  alignas(16) float samples[kWarps][64];  // of some partitions each, the best
  alignas(16) float left_scores[kMaxLeft];
  alignas(16) int counts[kHeldPasses][kHeldDigits];
  int left[kMaxLeft];         // partitions
  uint32_t taken[kMaxWords];  // partitions, as bits
  uint32_t equal[kMaxWords];  // those that equal the cut, by digits
  uint8_t num_reach[kMaxLooks][kWarps][32];
  uint32_t best[kWarps], worst[kWarps];
  uint32_t set[kWarps], unset[kWarps];  // bits, in any key
  int num_left, num_taken;
};

// The score that has the key.
__device__ inline float ScoreOfKey(uint32_t key) {
  const uint32_t ascending = ~key;
  return __uint_as_float(ascending >> 31 ? ascending & 0x7fffffffu
                                         : ~ascending);
}

// The count-th best of all samples of partitions is a bound that as many
// partitions reach, and mostly few others do. These are what is left, among
// which all threads find the best.
// Round k of warp w has partitions 32 * (k * kWarps + w) and on, a lane
// one: what is side by side, and mostly alike, is spread over warps and
// threads.
// REQUIRES: partitions are rows, at most kMaxHeldKeys * kThreads of them, and
// scores choose among them; all threads of the block call each method, in this
// order.
template <int kThreads>
class HeldKeys {
 public:
  static constexpr int kWarps = kThreads / 32;
  using Scratch = HeldScratch<kWarps>;

  __device__ HeldKeys(const RowBudget& budget, Scratch& scratch)
      : lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        budget_(budget),
        scratch_(scratch) {
    if (threadIdx.x == 0) scratch.num_left = scratch.num_taken = 0;
    // Where there are no scores, as they are read by fours.
    for (int i = threadIdx.x; i < kMaxLeft; i += kThreads) {
      scratch.left_scores[i] = -INFINITY;
    }
  }

  // Asks for the scores of those that are free.
  __device__ void Load(const float* scores,  // f32 [num_rows]
                       int num_rows) {
    rows_ = scores;
    num_rows_ = num_rows;
    const int end = min(budget_.end_free, num_rows);
    ForEachRound([&](int k) {
      const int row = First(k) + lane_;
      scores_[k] =
          row >= budget_.first_free && row < end ? scores[row] : -INFINITY;
    });
  }

  // Whether what is left was found: scratch.num_left partitions, the best count
  // of the free ones among them, and all that equal those.
  __device__ bool FindLeft() {
    float best[2] = {-INFINITY, -INFINITY};
    ForEachRound([&](int k) {
      // Not NaN, which orders as -infinity.
      scores_[k] = fmaxf(scores_[k], -INFINITY);
      best[k % 2] = fmaxf(best[k % 2], scores_[k]);
    });
    if (budget_.count > 2 * kThreads) return false;
    // Many have to be of fewer partitions each.
    const bool are_many = 2 * budget_.count > kThreads;
    if (!are_many) best[0] = fmaxf(best[0], best[1]);
    scratch_.samples[warp_][lane_] = best[0];
    if (are_many) scratch_.samples[warp_][32 + lane_] = best[1];
    float threshold = 0;
    if (!FindThreshold(are_many, best, threshold)) return false;
    KeepLeft(threshold);
    __syncthreads();
    return scratch_.num_left <= kMaxLeft;
  }

  // Marks in scratch.taken the best of those that are left: two threads a
  // partition count those that are better. (One warp that halved a range of
  // keys until as many were in it, for the threshold too, took 7.3 us a choice
  // in place of 6.1: one row behind 128K on an H200.)
  __device__ void TakeLeft() const {
    const int num_left = scratch_.num_left;
    const auto* fours = reinterpret_cast<const float4*>(scratch_.left_scores);
    const int half = lane_ % 2;
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x) / 2; at - lane_ / 2 < num_left;
         at += kThreads / 2) {
      const float mine = at < num_left ? scratch_.left_scores[at] : -INFINITY;
      int num_better = 0;
#pragma unroll 4
      for (int i = half; i < (num_left + 3) / 4; i += 2) {
        const float4 of = fours[i];
        num_better += (of.x > mine ? 1 : 0) + (of.y > mine ? 1 : 0) +
                      (of.z > mine ? 1 : 0) + (of.w > mine ? 1 : 0);
      }
      num_better += __shfl_xor_sync(kWarpMask, num_better, 1);
      const bool taken =
          half == 0 && at < num_left && num_better < budget_.count;
      if (taken) {
        atomicOr(&scratch_.taken[scratch_.left[at] / 32],
                 1u << (scratch_.left[at] % 32));
      }
      const int num_taken = __popc(__ballot_sync(kWarpMask, taken));
      if (lane_ == 0) atomicAdd(&scratch_.num_taken, num_taken);
    }
    __syncthreads();
    if (scratch_.num_taken == budget_.count) return;
    LeaveEqual();
    __syncthreads();
  }

  // Where the best budget.count of the free partitions end, from their scores
  // in memory: a digit at a time, from the first bit in which keys differ.
  __device__ Cut CutOfDigits() const {
    uint32_t set = 0, unset = 0;
    ForEachKey([&](uint32_t key) {
      set |= key;
      unset |= ~key;
    });
    set = __reduce_or_sync(kWarpMask, set);
    unset = __reduce_or_sync(kWarpMask, unset);
    if (lane_ == 0) {
      scratch_.set[warp_] = set;
      scratch_.unset[warp_] = unset;
    }
    for (int i = threadIdx.x; i < kHeldPasses * kHeldDigits; i += kThreads) {
      scratch_.counts[i / kHeldDigits][i % kHeldDigits] = 0;
    }
    __syncthreads();
    set = __reduce_or_sync(kWarpMask, scratch_.set[lane_ % kWarps]);
    unset = __reduce_or_sync(kWarpMask, scratch_.unset[lane_ % kWarps]);
    int shift = 32 - __clz(static_cast<int>(set & unset));
    uint32_t mask = shift == 32 ? 0u : ~0u << shift;
    uint32_t known = set & mask;
    int need = budget_.count;
#pragma unroll 1
    for (int pass = 0; shift > 0; ++pass) {
      int* counts = scratch_.counts[pass];
      const int num_bits = min(shift, kHeldDigitBits);
      shift -= num_bits;
      const uint32_t digits = (1u << num_bits) - 1;
      ForEachKey([&](uint32_t key) {
        if ((key & mask) == known) atomicAdd(&counts[key >> shift & digits], 1);
      });
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

  // The warp's partition of a round that lane 0 has.
  __device__ int First(int round) const {
    return 32 * (round * kWarps + warp_);
  }
  __device__ bool IsFree(int partition) const {
    return partition >= budget_.first_free && partition < budget_.end_free;
  }
  __device__ uint32_t KeyOfRow(int row) const {
    return KeyOf(row < num_rows_ ? rows_[row] : -INFINITY);
  }

 private:
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

  // f(round) for each that has partitions, and maybe some that have none.
  template <typename F>
  __device__ void ForEachRound(F&& f) const {
#pragma unroll
    for (int k = 0; k < kFewHeldKeys; ++k) f(k);
    if (budget_.num_partitions <= kFewHeldKeys * kThreads) return;
#pragma unroll
    for (int k = kFewHeldKeys; k < kMaxHeldKeys; ++k) f(k);
  }

  // f(key) for each of the thread's partitions that are free.
  template <typename F>
  __device__ void ForEachKey(F&& f) const {
#pragma unroll 4
    for (int row = budget_.first_free + static_cast<int>(threadIdx.x);
         row < budget_.end_free; row += kThreads) {
      f(KeyOfRow(row));
    }
  }

  // A score that budget.count samples reach, and few others; false if so few
  // have one. Each look asks, a lane a score, how many samples reach it: a warp
  // counts its own.
  __device__ bool FindThreshold(bool are_many, const float (&best)[2],
                                float& threshold) const {
    const float second = are_many ? best[1] : -INFINITY;
    const float least = fminf(best[0] > -INFINITY ? best[0] : INFINITY,
                              second > -INFINITY ? second : INFINITY);
    const uint32_t best_of_warp =
        __reduce_min_sync(kWarpMask, KeyOf(fmaxf(best[0], second)));
    const uint32_t worst_of_warp = __reduce_max_sync(kWarpMask, KeyOf(least));
    if (lane_ == 0) {
      scratch_.best[warp_] = best_of_warp;
      scratch_.worst[warp_] = worst_of_warp;
    }
    __syncthreads();
    float high =
        ScoreOfKey(__reduce_min_sync(kWarpMask, scratch_.best[lane_ % kWarps]));
    float low = ScoreOfKey(
        __reduce_max_sync(kWarpMask, scratch_.worst[lane_ % kWarps]));
    const int need = budget_.count, enough = need + need / 4;
    const auto* samples =
        reinterpret_cast<const float4*>(scratch_.samples[warp_]);
#pragma unroll 1
    for (int look = 0;; ++look) {
      const float share = static_cast<float>(lane_) / 32;
      const float asked = lane_ == 0 ? low : low * (1 - share) + high * share;
      int num = 0;
#pragma unroll 1
      for (int i = 0; i < (are_many ? 16 : 8); i += 8) {
#pragma unroll
        for (int j = i; j < i + 8; ++j) {
          const float4 of = samples[j];
          num += (of.x >= asked ? 1 : 0) + (of.y >= asked ? 1 : 0) +
                 (of.z >= asked ? 1 : 0) + (of.w >= asked ? 1 : 0);
        }
      }
      scratch_.num_reach[look][warp_][lane_] = static_cast<uint8_t>(num);
      __syncthreads();
      num = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        num += scratch_.num_reach[look][w][lane_];
      }
      const unsigned reached = __ballot_sync(kWarpMask, num >= need);
      if (reached == 0) return false;
      const int last = 31 - __clz(static_cast<int>(reached));
      low = __shfl_sync(kWarpMask, asked, last);
      if (last < 31) high = __shfl_sync(kWarpMask, asked, last + 1);
      num = __shfl_sync(kWarpMask, num, last);
      if (num <= enough || look + 1 == kMaxLooks) break;
    }
    threshold = low;
    return true;
  }

  // Puts into scratch.left, as far as there is room, the partitions that reach
  // the threshold, in any order.
  __device__ void KeepLeft(float threshold) {
    int num = 0;
    ForEachRound([&](int k) { num += scores_[k] >= threshold ? 1 : 0; });
    if (num == 0) return;
    int at = atomicAdd(&scratch_.num_left, num);
    if (at + num > kMaxLeft) return;
    ForEachRound([&](int k) {
      if (scores_[k] >= threshold) {
        scratch_.left_scores[at] = scores_[k];
        scratch_.left[at] = First(k) + lane_;
        ++at;
      }
    });
  }

  // Where several equal the last one that is taken: leaves those of them that
  // come later.
  __device__ void LeaveEqual() const {
    const int num_left = scratch_.num_left;
#pragma unroll 1
    for (int at = threadIdx.x; at < num_left; at += kThreads) {
      const float mine = scratch_.left_scores[at];
      const int partition = scratch_.left[at];
      int num_better = 0, num_equal = 0;
#pragma unroll 2
      for (int i = 0; i < num_left; ++i) {
        const float other = scratch_.left_scores[i];
        num_better += other > mine ? 1 : 0;
        num_equal += other == mine && scratch_.left[i] < partition ? 1 : 0;
      }
      if (num_better < budget_.count &&
          num_better + num_equal >= budget_.count) {
        atomicAnd(&scratch_.taken[partition / 32], ~(1u << (partition % 32)));
      }
    }
  }

  const int lane_, warp_;
  const RowBudget& budget_;
  Scratch& scratch_;
  const float* rows_ = nullptr;  // f32 [num_rows_]
  int num_rows_ = 0;
  float scores_[kMaxHeldKeys] = {};
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_HELD_KEYS_CUH_
