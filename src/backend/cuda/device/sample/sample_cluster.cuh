// SampleCluster: the blocks that share a row of logits, and how they add up.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_CLUSTER_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_CLUSTER_CUH_

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace winnow::device {

inline constexpr int kSampleThreads = 512;  // a block
inline constexpr int kSampleWarps = kSampleThreads / 32;
inline constexpr int kMaxSampleBlocks = 16;         // a row
inline constexpr int kSampleBins = kSampleThreads;  // a thread a bin
inline constexpr unsigned kAllLanes = 0xffffffffu;

// A block's tokens: [first, first + size) of the vocabulary.
struct SampleSlice {
  float* scores;  // [size], in shared memory
  int first;
  int size;
};

// What a block shares with its threads and with the other blocks. Two of what
// other blocks touch, used in turn: a block that is ahead fills the second
// while one behind still reads the first, and a barrier lies in between.
struct SampleShared {
  uint64_t of_warps[2][kSampleWarps];
  uint64_t told[2][2][kMaxSampleBlocks];
  uint32_t bins[2][2][kSampleBins];  // lower and upper halves of sums
  uint64_t found_above;
  uint64_t found_inside;
  int found_bin;
};

struct MaxOf {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const {
    return a > b ? a : b;
  }
};
struct SumOf {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};
// Of the two halves, each on its own.
struct MaxOfHalves {
  __device__ uint64_t operator()(uint64_t a, uint64_t b) const {
    const uint64_t upper = MaxOf()(a >> 32, b >> 32);
    return upper << 32 | MaxOf()(a & 0xffffffffu, b & 0xffffffffu);
  }
};

// The merged values of a warp's lanes, in each of them.
template <typename Merge>
__device__ inline uint64_t ReduceWarp(uint64_t value, Merge merge) {
  for (int step = 16; step > 0; step /= 2) {
    value = merge(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

// The sum of the values of this lane and those before it.
__device__ inline uint64_t ScanWarp(uint64_t value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int step = 1; step < 32; step *= 2) {
    const uint64_t before = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += before;
  }
  return value;
}

// Owns nothing: a thread's hold on its row's blocks, whose threads all make
// the same calls in the same order. Sums and maxima of integers only, so that
// neither the order nor the number of blocks shows in a result.
class SampleCluster {
 public:
  // A bin that a sum falls in: what lies in the bins before it, and in it.
  struct Found {
    int bin;  // -1: the sum of all bins is less than what was asked for
    uint64_t above;
    uint64_t inside;
  };

  __device__ explicit SampleCluster(SampleShared& shared)
      : cluster_(cooperative_groups::this_cluster()),
        shared_(shared),
        rank_(static_cast<int>(cluster_.block_rank())),
        num_blocks_(static_cast<int>(cluster_.num_blocks())) {
    cluster_.sync();  // nobody writes to a block that has not begun
  }

  __device__ int rank() const { return rank_; }
  __device__ int num_blocks() const { return num_blocks_; }
  // The one thread that writes what all know.
  __device__ bool IsWriter() const { return rank_ == 0 && threadIdx.x == 0; }
  __device__ SampleShared& shared() { return shared_; }

  // The values of all the row's threads, merged, in each of them. REQUIRES:
  // merge(0, x) is x.
  template <typename Merge>
  __device__ uint64_t Reduce(uint64_t value, Merge merge) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    value = ReduceWarp(value, merge);
    if (lane == 0) shared_.of_warps[0][threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
      value = lane < kSampleWarps ? shared_.of_warps[0][lane] : 0;
      value = ReduceWarp(value, merge);
    }
    const uint64_t(*told)[kMaxSampleBlocks] = Tell(value, 0);
    value = 0;
    for (int block = 0; block < num_blocks_; ++block) {
      value = merge(value, told[0][block]);
    }
    return value;
  }

  // Gives two numbers of each block to every block; returns them, [2, blocks].
  // REQUIRES: the first warp's lanes agree on the two.
  __device__ const uint64_t (*Tell(uint64_t first,
                                   uint64_t second))[kMaxSampleBlocks] {
    if (static_cast<int>(threadIdx.x) < num_blocks_) {
      SampleShared* other = cluster_.map_shared_rank(&shared_, threadIdx.x);
      other->told[told_turn_][0][rank_] = first;
      other->told[told_turn_][1][rank_] = second;
    }
    cluster_.sync();
    const auto* told = shared_.told[told_turn_];
    told_turn_ ^= 1;
    return told;
  }

  // Empties the bins. Then threads add to bins; then FindBin.
  __device__ void ClearBins() {
    shared_.bins[bins_turn_][0][threadIdx.x] = 0;
    shared_.bins[bins_turn_][1][threadIdx.x] = 0;
    if (threadIdx.x == 0) shared_.found_bin = -1;
    __syncthreads();
  }

  // Integers, so the order in which threads come does not matter. Two atomic
  // sums of 32 bits, the second seldom, where one of 64 would be a loop.
  __device__ void AddToBin(int bin, uint64_t amount) {
    const auto lower = static_cast<uint32_t>(amount);
    const uint32_t old = atomicAdd(&shared_.bins[bins_turn_][0][bin], lower);
    const auto upper =
        static_cast<uint32_t>(amount >> 32) + (old + lower < old ? 1u : 0u);
    if (upper != 0) atomicAdd(&shared_.bins[bins_turn_][1][bin], upper);
  }

  // The first bin with which the sum of the bins is `wanted` or more.
  // REQUIRES: wanted > 0.
  __device__ Found FindBin(uint64_t wanted) {
    const uint64_t inside = SumOfOwnBin();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    uint64_t up_to = ScanWarp(inside);
    if (threadIdx.x % 32 == 31) shared_.of_warps[0][warp] = up_to;
    __syncthreads();
    for (int i = 0; i < warp; ++i) up_to += shared_.of_warps[0][i];
    const uint64_t above = up_to - inside;
    if (above < wanted && wanted <= up_to) {
      shared_.found_above = above;
      shared_.found_inside = inside;
      shared_.found_bin = static_cast<int>(threadIdx.x);
    }
    __syncthreads();
    return {shared_.found_bin, shared_.found_above, shared_.found_inside};
  }

 private:
  // What all blocks have added to this thread's bin.
  __device__ uint64_t SumOfOwnBin() {
    cluster_.sync();
    uint64_t sum = 0;
#pragma unroll 8  // so that reads of other blocks' memory overlap
    for (int block = 0; block < num_blocks_; ++block) {
      const auto& bins =
          cluster_.map_shared_rank(&shared_, block)->bins[bins_turn_];
      sum += bins[0][threadIdx.x] +
             (static_cast<uint64_t>(bins[1][threadIdx.x]) << 32);
    }
    bins_turn_ ^= 1;
    return sum;
  }

  cooperative_groups::cluster_group cluster_;
  SampleShared& shared_;
  int rank_;
  int num_blocks_;
  int told_turn_ = 0;
  int bins_turn_ = 0;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SAMPLE_SAMPLE_CLUSTER_CUH_
