// One warpgroup of a block of prompt attention: 64 rows of each tile, over its
// keys in ascending tiles of 128.
//
// After FlashAttention-3 (Shah et al., "FlashAttention-3: Fast and Accurate
// Attention with Asynchrony and Low-precision", 2024): inside a warpgroup the
// scores of a key tile are multiplied while the values of the one before it
// are taken in (section 3.2), and while one warpgroup works out its weights the
// tensor cores belong to the other (section 3.1).
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_ATTEND_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_ATTEND_CUH_

#include "backend/cuda/device/attend/prompt_memory.cuh"
#include "backend/cuda/device/attend/prompt_partials.cuh"
#include "backend/cuda/device/attend/prompt_softmax.cuh"
#include "backend/cuda/device/runtime/wgmma.cuh"

namespace winnow::device {

// The block's numbered barriers: 0 is __syncthreads.
inline constexpr int kTurnBarrier = 1;   // + warpgroup: it may multiply
inline constexpr int kClearBarrier = 8;  // + warpgroup: values are cleared

template <int kHeadDim, PromptKeys kKeys>
class PromptAttend {
  using Shape = PromptShape<kHeadDim>;
  using Memory = PromptMemory<kHeadDim>;
  using Scores = float[kScoresPerThread];
  using Weights = uint32_t[8][4];
  static constexpr bool kPicks = kKeys == PromptKeys::kPicked;
  static constexpr int kOutPerThread = kHeadDim / 2;
  static_assert(kScoresPerThread == kKeysPerTile / 2);

 public:
  // warpgroup: among those that compute.
  __device__ PromptAttend(const PromptArgs& args, Memory& memory, int warpgroup)
      : args_(args), memory_(memory), warpgroup_(warpgroup) {}

  __device__ void Run() {
    // The first turn is the first warpgroup's.
    if (warpgroup_ == 0) PassTurnTo(0);
    for (;;) {
      memory_.tile_full[place_.index].Wait(place_.parity);
      tile_ = memory_.tile[place_.index];
      __syncwarp();  // all lanes have, before one says that the warp is done
      if (tile_.num_tokens == 0) return;
      Attend();
    }
  }

 private:
  // The rows of this thread are FirstRow() and eight further.
  __device__ int FirstRow() const {
    return warpgroup_ * kRowsPerWarpgroup +
           threadIdx.x % kThreadsPerWarpgroup / 32 * 16 + threadIdx.x % 32 / 4;
  }

  __device__ void Attend() {
    PromptSoftmax softmax;
    Scores scores;
    Weights weights;
    float out[kOutPerThread];
    float keep[2];
#pragma unroll
    for (int i = 0; i < kOutPerThread; ++i) out[i] = 0;
    const float log2_scale = args_.scale * 1.44269504f;

    key_tile_ = tile_.first_key_tile - 1;
    if constexpr (kPicks) {
      for (int r = 0; r < 2; ++r) {
        list_[r] = (FirstRow() + 8 * r) / tile_.rows_per_list;
      }
    }
    AwaitKeys();
    FenceProducts();
    MultiplyKeys(scores);
    WaitForProducts<0>();
    Landed(scores);
    HideOthers(scores);
    softmax.TakeIn(scores, log2_scale, keep);
    RoundWeights(scores, weights);
    while (!is_last_) {
      AwaitKeys();
      AwaitTurn();
      FenceProducts();
      MultiplyKeys(scores);
      memory_.v_full[v_place_.index].Wait(v_place_.parity);
      MultiplyValues(weights, out);
      PassTurnTo((warpgroup_ + 1) % Shape::kWarpgroups);
      WaitForProducts<1>();
      Landed(scores);
      HideOthers(scores);
      softmax.TakeIn(scores, log2_scale, keep);
      // The assembler moves most of the softmax behind this wait. Held before
      // it, everything was 3 % slower.
      WaitForProducts<0>();
      Landed(out);
      Landed(weights);
      Release(memory_.v_empty, v_place_);
#pragma unroll
      for (int i = 0; i < kOutPerThread; ++i) out[i] *= keep[i / 2 % 2];
      RoundWeights(scores, weights);
    }
    // The queries have been used up.
    Release(memory_.tile_empty, place_);
    memory_.v_full[v_place_.index].Wait(v_place_.parity);
    ClearValuesBehindEnd();
    FenceProducts();
    MultiplyValues(weights, out);
    WaitForProducts<0>();
    Landed(out);
    Landed(weights);
    Release(memory_.v_empty, v_place_);
    Write(softmax, out);
  }

  // The next key tile, whose keys are there then.
  __device__ void AwaitKeys() {
    memory_.k_full[k_place_.index].Wait(k_place_.parity);
    if constexpr (kPicks) {
      key_tile_ = memory_.key_tile[k_place_.index];
      is_last_ = memory_.is_last[k_place_.index];
    } else {
      is_last_ = ++key_tile_ + 1 == tile_.end_key_tile;
    }
  }

  __device__ void AwaitTurn() const {
    NamedSync(kTurnBarrier + warpgroup_, 2 * kThreadsPerWarpgroup);
  }
  __device__ static void PassTurnTo(int warpgroup) {
    NamedArrive(kTurnBarrier + warpgroup, 2 * kThreadsPerWarpgroup);
  }

  // This warp is done with a buffer. REQUIRES: what its lanes have read
  // themselves, they met behind.
  template <int kSize>
  __device__ static void Release(Mbarrier (&empty)[kSize],
                                 RingPlace<kSize>& place) {
    if (threadIdx.x % 32 == 0) empty[place.index].Arrive();
    place.Next();
  }

  // scores = q k^T, [64, 128], as a group under way.
  __device__ void MultiplyKeys(Scores& scores) const {
    constexpr int kRowBytes = Shape::kRowBytes;
    const SharedOperand<kRowBytes> q(
        memory_.q[place_.index] + warpgroup_ * kRowsPerWarpgroup * kRowBytes,
        0);
    const SharedOperand<kRowBytes> k(memory_.k[k_place_.index], 0);
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const int chunk = step * 16 / Shape::kChunk;
      const int offset = step * 16 % Shape::kChunk * 2;
      MultiplyShared(scores, q.Further(chunk * Shape::kRowChunkBytes + offset),
                     k.Further(chunk * Shape::kKeyChunkBytes + offset),
                     step > 0);
    }
    CommitProducts();
  }

  // out += weights v, [64, v_dim], as a group under way.
  __device__ void MultiplyValues(const Weights& weights,
                                 float (&out)[kOutPerThread]) const {
    const SharedOperand<Shape::kRowBytes> v(memory_.v[v_place_.index],
                                            Shape::kKeyChunkBytes);
#pragma unroll
    for (int step = 0; step < kKeysPerTile / 16; ++step) {
      MultiplyRegisters(out, weights[step],
                        v.Further(step * 16 * Shape::kRowBytes));
    }
    CommitProducts();
  }

  // Hides the keys of the tile that the rows do not read. Done with the keys.
  __device__ void HideOthers(Scores& scores) {
    if constexpr (kPicks) {
      uint4 picked[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        picked[r] = memory_.picked[k_place_.index]
                                  [(FirstRow() + 8 * r) / tile_.rows_per_list];
      }
      __syncwarp();
      Release(memory_.k_empty, k_place_);
      HideUnpicked(picked, scores);
    } else {
      Release(memory_.k_empty, k_place_);
    }
    HideUnseen(scores);
  }

  // At the diagonal and at the window's edge.
  __device__ void HideUnseen(Scores& scores) const {
    const StepRows& rows = args_.rows.step;
    const int first_key = key_tile_ * kKeysPerTile;
    const int last_position = tile_.end_position() - 1;
    if (first_key + kKeysPerTile - 1 <= tile_.first_position &&
        first_key >= rows.FirstVisible(last_position)) {
      return;
    }
    VisibleKeys visible[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position =
          tile_.first_position + (FirstRow() + 8 * r) / args_.group_heads;
      visible[r] = {rows.FirstVisible(position) - first_key,
                    position - first_key};
    }
    HideKeys(visible, scores);
  }

  // Values behind the tile's last position may be anything, and zero times
  // anything may be NaN; pages behind it arrived as zeros. All warpgroups write
  // the same zeros.
  __device__ void ClearValuesBehindEnd() const {
    const int first = tile_.end_position() % kKeysPerTile;
    const int num_keys = -first & (kTokensPerPage - 1);
    if (num_keys == 0 ||
        (key_tile_ + 1) * kKeysPerTile < tile_.end_position()) {
      return;
    }
    constexpr int kRowBytes = Shape::kRowBytes;
    uint8_t* values = memory_.v[v_place_.index] + first * kRowBytes;
    for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
      for (int byte = threadIdx.x % kThreadsPerWarpgroup * 16;
           byte < num_keys * kRowBytes; byte += kThreadsPerWarpgroup * 16) {
        *reinterpret_cast<uint4*>(values + chunk * Shape::kKeyChunkBytes +
                                  byte) = make_uint4(0, 0, 0, 0);
      }
    }
    FenceAsyncShared();
    NamedSync(kClearBarrier + warpgroup_, kThreadsPerWarpgroup);
  }

  __device__ void Write(PromptSoftmax& softmax,
                        const float (&out)[kOutPerThread]) const {
    softmax.SumUp();
    if constexpr (kKeys == PromptKeys::kAllInParts) {
      if (tile_.num_key_parts > 1) return Leave(softmax, out);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = FirstRow() + 8 * r;
      const int token = row / args_.group_heads;
      const bool valid = token < tile_.num_tokens;
      const int64_t step_row = tile_.first_row + token;
      const int head =
          tile_.kv_head * args_.group_heads + row % args_.group_heads;
      const float share = 1.0f / softmax.sum[r];
      __nv_bfloat16* to = args_.out + step_row * args_.out_row_stride +
                          head * args_.out_head_stride;
#pragma unroll
      for (int i = 0; i < kHeadDim / 32; ++i) {
        uint32_t words[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const int at = 4 * (4 * i + w) + 2 * r;
          const __nv_bfloat162 pair =
              __floats2bfloat162_rn(out[at] * share, out[at + 1] * share);
          words[w] = reinterpret_cast<const uint32_t&>(pair);
        }
        TransposeAmongFour(words);
        if (valid) {
          *reinterpret_cast<uint4*>(to + 32 * i + threadIdx.x % 4 * 8) =
              make_uint4(words[0], words[1], words[2], words[3]);
        }
      }
      if (valid && args_.lse != nullptr && threadIdx.x % 4 == 0) {
        args_.lse[step_row * args_.lse_stride + head] =
            __fmaf_rn(softmax.maximum[r], args_.scale, logf(softmax.sum[r]));
      }
    }
  }

  // For those who merge the parts of the tile's keys.
  __device__ void Leave(const PromptSoftmax& softmax,
                        const float (&out)[kOutPerThread]) const {
    const PromptPartials<kHeadDim> to(args_.partials, tile_.item);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = FirstRow() + 8 * r;
      float2* values =
          reinterpret_cast<float2*>(to.Values(row)) + threadIdx.x % 4;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        values[4 * i] = make_float2(out[4 * i + 2 * r], out[4 * i + 2 * r + 1]);
      }
      if (threadIdx.x % 4 == 0) {
        *to.State(row) = make_float2(softmax.maximum[r], softmax.sum[r]);
      }
    }
  }

  // Thread i of four has word i of each of four columns' groups; it gets all
  // four words of group i.
  __device__ static void TransposeAmongFour(uint32_t (&words)[4]) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
      const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        uint32_t& low = words[distance == 1 ? 2 * pair : pair];
        uint32_t& high = words[distance == 1 ? 2 * pair + 1 : pair + 2];
        const uint32_t got =
            __shfl_xor_sync(0xffffffff, upper ? low : high, distance);
        (upper ? low : high) = got;
      }
    }
  }

  const PromptArgs& args_;
  Memory& memory_;
  const int warpgroup_;
  PromptTile tile_;
  int key_tile_ = 0;
  bool is_last_ = false;
  int list_[2];  // of this thread's rows, where there are picks
  RingPlace<Memory::kTiles> place_;
  RingPlace<Shape::kBuffers> k_place_, v_place_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_ATTEND_CUH_
