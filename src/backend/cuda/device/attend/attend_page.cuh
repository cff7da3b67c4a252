// A warp's attention over one page, for up to 16 q heads of a KV head.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_PAGE_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_PAGE_CUH_

#include "backend/cuda/device/attend/attend_lists.cuh"
#include "backend/cuda/device/attend/attend_mma.cuh"
#include "backend/cuda/device/attend/attend_state.cuh"
#include "backend/cuda/device/runtime/async_copy.cuh"
#include "backend/cuda/device/runtime/cache_policy.cuh"

namespace winnow::device {

// Keys or values of a page in shared memory: [32, kDim] bfloat16, rows without
// gaps, the 16-byte chunks of a row exchanged so that eight rows' same chunk
// lies in eight different groups of four banks. A row is kDim / 8 chunks, so
// chunk c of token t starts at group (t * kDim / 8 + c) % 8:
//  * kDim of 64 or 128: c % 8 for all t; with c ^ (t % 8) all eight differ;
//  * kDim of 96: (4 t + c) % 8; c ^ (t / 2 % 4) differs within four even (or
//    odd) tokens, which stay within their half of the groups.
// Both stay within the row: the exchange is within 8 (4) aligned chunks.
template <int kDim>
struct PageHalf {
  static constexpr int kRowBytes = kDim * 2;
  static constexpr int kBytes = kAttendPageTokens * kRowBytes;
  static constexpr int kChunks = kDim / 8;  // of a row

  static __device__ uint32_t Offset(int token, int chunk) {
    const int exchange = kDim % 64 == 0 ? token & 7 : token >> 1 & 3;
    return static_cast<uint32_t>(token * kRowBytes + (chunk ^ exchange) * 16);
  }

  // A warp starts to copy the rows of `tokens`; the others become zero, which
  // keeps what nobody has written (NaN, perhaps) out of every sum.
  // What no other list of the row has leaves L2 first, and what the next ops
  // need stays.
  static __device__ void Load(uint32_t to, const std::byte* from,
                              uint32_t tokens, bool reads_alone) {
    const CachePolicy policy = EvictFirst();
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int index = i * 32 + lane;
      const int token = index / kChunks;
      const uint32_t place = to + Offset(token, index % kChunks);
      const uint32_t num_bytes = (tokens >> token & 1) != 0 ? 16 : 0;
      if (reads_alone) {
        CopyAsync16(place, from + index * 16, num_bytes, policy);
      } else {
        CopyAsync16(place, from + index * 16, num_bytes);
      }
    }
  }
  // The same where every `piece_tokens` tokens have an address of their own,
  // lane i's for piece i: less than the tokens before it take up.
  static __device__ void LoadApart(uint32_t to, unsigned long long address,
                                   int piece_tokens, uint32_t tokens) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int index = i * 32 + lane;
      const int token = index / kChunks;
      const unsigned long long from =
          __shfl_sync(~0u, address, token / piece_tokens);
      CopyAsync16(to + Offset(token, index % kChunks),
                  reinterpret_cast<const std::byte*>(from) + index * 16,
                  (tokens >> token & 1) != 0 ? 16 : 0);
    }
  }
};

// The q heads that share a KV head and a list, eight a tile, and what they make
// of one page. Heads are columns, so that no product is spent on rows that are
// not there: scores^T [32, heads] = K [32, kDim] q^T, and
// values^T [kDim, heads] = V^T [kDim, 32] weights^T.
template <int kDim, int kTiles>
struct PageHeads {
  static constexpr int kSteps = kDim / 16;
  using Half = PageHalf<kDim>;

  uint32_t q[kTiles][kSteps][2];   // B: head g, channels 16 s + ...
  uint32_t weights[kTiles][2][2];  // B: head g, tokens 16 s + ...
  float values[kSteps][4];   // C: channels 16 s + g, heads 2 t of one tile
  float maximum[kTiles][2];  // of heads 2 t and 2 t + 1
  float sum[kTiles][2];

  // Loads q [heads, kDim]; heads that are not there become zero.
  __device__ void LoadQuery(const __nv_bfloat16* from, int64_t head_stride,
                            int num_heads) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint16_t* bits = reinterpret_cast<const uint16_t*>(from);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int head = tile * 8 + lane / 4;
      const uint16_t* at = bits + head * head_stride + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        // Rows may start at odd addresses of two bytes.
        uint32_t pair = 0;
        if (head < num_heads) {
          pair = at[8 * i] | static_cast<uint32_t>(at[8 * i + 1]) << 16;
        }
        q[tile][i / 2][i % 2] = pair;
      }
    }
  }

  // Scores, weights, maximum and sum from the keys. REQUIRES: tokens != 0.
  __device__ void TakeKeys(uint32_t keys, uint32_t tokens, float scale_log2) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float scores[kTiles][2][4] = {};  // C: tokens 16 half + g, heads 2 t
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Matrix lane / 8 of A: tokens + 8 for 1 and 3, channels + 8 for 2, 3.
        uint32_t a[4];
        LoadMatrices(a, keys + Half::Offset(16 * half + lane % 16,
                                            2 * step + lane / 16));
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          MultiplyInto(scores[tile][half], a, q[tile][step]);
        }
      }
    }
    // This lane's tokens are 8 i + g, i < 4: bits 8 i of what is left.
    const uint32_t mine = tokens >> (lane / 4);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        Weigh(scores[tile], mine, column, scale_log2, tile);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&w)[4] = scores[tile][half];
        // [8 tokens, 8 heads] a register; B wants the head as the row.
        weights[tile][half][0] = Transposed(PackBFloat16(w[0], w[1]));
        weights[tile][half][1] = Transposed(PackBFloat16(w[2], w[3]));
      }
    }
  }

  // The weighted values of a tile's heads. REQUIRES: TakeKeys has seen the same
  // page.
  __device__ void TakeValues(int tile, uint32_t from) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) values[step][i] = 0;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        // Matrix lane / 8 of A = V^T: channels + 8 for 1 and 3, tokens + 8 for
        // 2 and 3; each lies as [tokens, channels] and is transposed.
        uint32_t a[4];
        LoadTransposed(a,
                       from + Half::Offset(16 * half + lane / 16 * 8 + lane % 8,
                                           2 * step + lane / 8 % 2));
        MultiplyInto(values[step], a, weights[tile][half]);
      }
    }
  }

 private:
  // Turns one head's scores into weights. The head's 32 tokens are in this
  // lane (four) and in the seven others with the same t.
  __device__ void Weigh(float (&scores)[2][4], uint32_t mine, int column,
                        float scale_log2, int tile) {
    float greatest = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float score = scores[i / 2][i % 2 * 2 + column];
      if ((mine >> (8 * i) & 1) == 0) continue;
      greatest = fmaxf(greatest, __fmul_rn(score, scale_log2));
    }
#pragma unroll
    for (int distance = 4; distance <= 16; distance *= 2) {
      greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, distance));
    }
    float total = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][i % 2 * 2 + column];
      const float weight = Exp2(__fmaf_rn(score, scale_log2, -greatest));
      score = (mine >> (8 * i) & 1) != 0 ? weight : 0.0f;
      total += score;
    }
#pragma unroll
    for (int distance = 4; distance <= 16; distance *= 2) {
      total += __shfl_xor_sync(~0u, total, distance);
    }
    maximum[tile][column] = greatest;
    sum[tile][column] = total;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_PAGE_CUH_
