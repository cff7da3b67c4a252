// HeldKeys: a list's keys in a block's registers, and where the best end.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_HELD_KEYS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_HELD_KEYS_CUH_

#include <cfloat>

#include "backend/cuda/device/select_cut.cuh"
#include "backend/cuda/device/select_row.cuh"

namespace winnow::device {

// Keys of a thread, at most: of 128K tokens by 16, and more. By 32 it has few,
// and code for no more than these: a block runs its code once, and so takes
// about as long as that takes to arrive.
constexpr int kMaxHeldKeys = 17;
constexpr int kFewHeldKeys = 9;
// Of a block where lists are more than run at a time: half as many threads, and
// so twice as many lists. One list is chosen sooner by more of them.
constexpr int kHalfThreads = kChooseThreads / 2;
constexpr int kHeldDigitBits = 8;
constexpr int kHeldDigits = 1 << kHeldDigitBits;
constexpr int kHeldPasses = 32 / kHeldDigitBits;
// Keys that may be left when the cut is known to lie among them.
constexpr int kMaxLeftKeys = 512;

// Each pass has counts of its own, and each sum its own place: what is written
// once is not to be waited for again.
template <int kWarps>
struct alignas(16) HeldScratch {
  int bins[kHeldDigits];
  int counts[kHeldPasses][kHeldDigits];
  uint32_t left[kMaxLeftKeys];
  // Of each round, a byte a warp.
  uint8_t num_equal[kMaxHeldKeys][kWarps];
  uint8_t num_groups[kMaxHeldKeys][kWarps];
  uint32_t best[kWarps], worst[kWarps];
  uint32_t set[kWarps], unset[kWarps];  // bits, in any key
  int num_left;
  Cut cut;
};

// The score that has the key.
__device__ inline float ScoreOfKey(uint32_t key) {
  const uint32_t ascending = ~key;
  return __uint_as_float(ascending >> 31 ? ascending & 0x7fffffffu
                                         : ~ascending);
}

// Where scores lie between two of them, in bins: never the lower for a better
// key, as no step of it (a bound, a difference, a product) is.
class ScoreBins {
 public:
  __device__ ScoreBins(uint32_t best, uint32_t worst)
      : best_(Bounded(best)),
        scale_(fminf(kHeldDigits / (best_ - Bounded(worst)), FLT_MAX)) {}
  // In [0, kHeldDigits), of which an integer is the bin.
  __device__ float Place(uint32_t key) const {
    return fminf((best_ - Bounded(key)) * scale_, kHeldDigits - 1.0f);
  }

 private:
  // Far from overflow of a difference.
  __device__ static float Bounded(uint32_t key) {
    constexpr float kMost = FLT_MAX / 4;
    return fmaxf(fminf(ScoreOfKey(key), kMost), -kMost);
  }
  const float best_, scale_;
};

// Round k of warp w has partitions 32 * (k * kWarps + w) and on, a lane
// one: what is side by side, and mostly alike, is spread over warps and
// threads.
// REQUIRES: partitions are rows, at most kKeys * kThreads of them, and
// scores choose among them; all threads of the block call each method, in this
// order.
template <int kKeys, int kThreads>
class HeldKeys {
 public:
  static constexpr int kWarps = kThreads / 32;
  using Scratch = HeldScratch<kWarps>;

  __device__ HeldKeys(const RowBudget& budget, Scratch& scratch)
      : lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        budget_(budget),
        scratch_(scratch) {
    static_assert(kHeldDigits <= kThreads);
    if (threadIdx.x < kHeldDigits) scratch.bins[threadIdx.x] = 0;
    // No key: those of NaN are -infinity's.
#pragma unroll
    for (int first = 0; first < kMaxLeftKeys; first += kThreads) {
      scratch.left[first + static_cast<int>(threadIdx.x)] = ~0u;
    }
    if (threadIdx.x == 0) scratch.num_left = 0;
  }

  // Asks for the scores of those that are free.
  __device__ void Load(const float* scores,  // f32 [num_rows]
                       int num_rows) {
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      const int row = First(k) + lane_;
      const bool is_free = row >= budget_.first_free && row < budget_.end_free;
      if (is_free) is_free_ |= 1u << k;
      scores_[k] = is_free && row < num_rows ? scores[row] : -INFINITY;
    }
  }

  // Where the best budget.count of the free partitions end.
  __device__ Cut FindCut() {
    uint32_t best = ~0u;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      keys_[k] = KeyOf(scores_[k]);
      if (IsFree(k)) best = min(best, keys_[k]);
    }
    // As many threads have a best key as are to be taken.
    if (budget_.count <= kThreads) {
      KeepLeft(best);
      const int num_left = scratch_.num_left;
      if (num_left <= kMaxLeftKeys) return CutOfLeft(num_left);
    }
    return CutOfDigits();
  }

  // The warp's partition of a round that lane 0 has.
  __device__ int First(int round) const {
    return 32 * (round * kWarps + warp_);
  }
  __device__ bool IsFree(int round) const {
    return (is_free_ >> round & 1) != 0;
  }
  __device__ uint32_t Key(int round) const { return keys_[round]; }

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

  // Puts into scratch.left, as far as there is room, the keys of no later bin
  // than that in which the count-th of the threads' best keys lies: so many
  // keys are no worse, so the cut lies among them, and mostly few others do.
  __device__ void KeepLeft(uint32_t best) {
    const bool has_any = is_free_ != 0;
    const uint32_t best_of_warp = __reduce_min_sync(kWarpMask, best);
    const uint32_t worst_of_warp =
        __reduce_max_sync(kWarpMask, has_any ? best : 0u);
    if (lane_ == 0) {
      scratch_.best[warp_] = best_of_warp;
      scratch_.worst[warp_] = worst_of_warp;
    }
    __syncthreads();
    const int warp = lane_ % kWarps;
    const ScoreBins bins(__reduce_min_sync(kWarpMask, scratch_.best[warp]),
                         __reduce_max_sync(kWarpMask, scratch_.worst[warp]));
    if (has_any) {
      atomicAdd(&scratch_.bins[static_cast<int>(bins.Place(best))], 1);
    }
    __syncthreads();
    const int last = FindDigit(scratch_.bins, budget_.count).digit;
    const auto end = static_cast<float>(last + 1);
    uint32_t stays = 0;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      if (IsFree(k) && bins.Place(keys_[k]) < end) stays |= 1u << k;
    }
    if (stays != 0) {
      int at = atomicAdd(&scratch_.num_left, __popc(stays));
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
        const bool stores = (stays >> k & 1) != 0;
        if (stores && at < kMaxLeftKeys) scratch_.left[at] = keys_[k];
        at += stores ? 1 : 0;
      }
    }
    __syncthreads();
  }

  // The count-th of the keys that are left, a thread each, or a few.
  __device__ Cut CutOfLeft(int num_left) const {
#pragma unroll 1
    for (int at = threadIdx.x; at < num_left; at += kThreads) {
      const uint32_t key = scratch_.left[at];
      int num_below = 0, num_above = 0;
      const auto* words = reinterpret_cast<const uint4*>(scratch_.left);
#pragma unroll 4
      for (int i = 0; i < (num_left + 3) / 4; ++i) {
        const uint4 of = words[i];
        num_below += (of.x < key) + (of.y < key) + (of.z < key) + (of.w < key);
        num_above += (of.x > key) + (of.y > key) + (of.z > key) + (of.w > key);
      }
      const int behind = (num_left + 3) / 4 * 4 - num_above;
      // Those that are equal say the same.
      if (num_below < budget_.count && budget_.count <= behind) {
        scratch_.cut = {key, budget_.count - num_below, budget_.count < behind};
      }
    }
    __syncthreads();
    return scratch_.cut;
  }

  // A digit at a time, from the first bit in which keys differ.
  __device__ Cut CutOfDigits() const {
    uint32_t set = 0, unset = 0;
#pragma unroll
    for (int k = 0; k < kKeys; ++k) {
      set |= IsFree(k) ? keys_[k] : 0u;
      unset |= IsFree(k) ? ~keys_[k] : 0u;
    }
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
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
        if (IsFree(k) && (keys_[k] & mask) == known) {
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

  const int lane_, warp_;
  const RowBudget& budget_;
  Scratch& scratch_;
  uint32_t is_free_ = 0;  // bit k: this lane's partition of round k
  float scores_[kKeys] = {};
  uint32_t keys_[kKeys] = {};
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_HELD_KEYS_CUH_
