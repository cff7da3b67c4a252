// What the kernel of prompt attention takes, and how it lays out the shared
// memory of a block.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_MEMORY_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_MEMORY_CUH_

#include <cuda_bf16.h>

#include "backend/cuda/device/attend/prompt_tiles.cuh"
#include "backend/cuda/device/runtime/mbarrier.cuh"

namespace winnow::device {

inline constexpr int kThreadsPerWarpgroup = 128;
inline constexpr int kRowsPerWarpgroup = 64;
inline constexpr int kTokensPerPage = 32;
inline constexpr int kPagesPerKeyTile = 4;
inline constexpr int kKeysPerTile = kTokensPerPage * kPagesPerKeyTile;

// Matrices stand in shared memory as chunks of kChunk columns, in each the
// rows one behind the other, swizzled.
template <int kHeadDim>
struct PromptShape {
  static constexpr int kChunk = kHeadDim % 64 == 0 ? 64 : 32;
  static constexpr int kChunks = kHeadDim / kChunk;
  static constexpr int kRowBytes = 2 * kChunk;

  // Warpgroups that compute; one more brings them what they need. Three of
  // them fit the registers where heads are small.
  static constexpr int kWarpgroups = kHeadDim > 64 ? 2 : 3;
  static constexpr int kThreads = (kWarpgroups + 1) * kThreadsPerWarpgroup;
  static constexpr int kLoadRegisters = kWarpgroups == 2 ? 40 : 32;
  static constexpr int kComputeRegisters = kWarpgroups == 2 ? 232 : 160;

  static constexpr int kRows = kWarpgroups * kRowsPerWarpgroup;  // of a tile
  static constexpr int kRowChunkBytes = kRows * kRowBytes;
  static constexpr int kKeyChunkBytes = kKeysPerTile * kRowBytes;
  static constexpr int kPageBytes = kTokensPerPage * kRowBytes;  // of a chunk
  static constexpr int kBuffers = kHeadDim > 96 ? 2 : 3;  // of K and of V
};

// Which keys an item's rows read: all of them, a part of all of them (rows may
// be cut by keys), or those that lists name.
enum class PromptKeys { kAll, kAllInParts, kPicked };

// Where a list of picks has been read to.
struct PromptList {
  const uint32_t* picks;  // (page, tokens); null: every page
  int next, end;          // of the picks
  int key_tile;           // of the next one; kNoKeyTile behind the last
};
inline constexpr int kNoKeyTile = 0x7fffffff;

// Buffers go round: `full` passes when a buffer holds what was asked for,
// `empty` when all warps that compute are done with it.
template <int kHeadDim>
struct PromptMemory {
  using Shape = PromptShape<kHeadDim>;
  static constexpr int kBuffers = Shape::kBuffers;
  static constexpr int kTiles = 2;  // one is worked on, one being fetched

  uint8_t q[kTiles][Shape::kChunks * Shape::kRowChunkBytes];
  uint8_t k[kBuffers][Shape::kChunks * Shape::kKeyChunkBytes];
  uint8_t v[kBuffers][Shape::kChunks * Shape::kKeyChunkBytes];
  // Of picks alone: which of a key tile's tokens each list names, which tile
  // that is, and whether it is the last one.
  uint4 picked[kBuffers][Shape::kRows];
  int key_tile[kBuffers];
  bool is_last[kBuffers];
  PromptList lists[Shape::kRows];
  PromptTile tile[kTiles];
  Mbarrier tile_full[kTiles], tile_empty[kTiles];  // of `tile` and `q`
  Mbarrier k_full[kBuffers], k_empty[kBuffers];
  Mbarrier v_full[kBuffers], v_empty[kBuffers];

  // By one thread, before the others come here.
  __device__ void Init() {
    constexpr int kWarps = Shape::kWarpgroups * kThreadsPerWarpgroup / 32;
    for (int i = 0; i < kTiles; ++i) {
      tile_full[i].Init(1);
      tile_empty[i].Init(kWarps);
    }
    for (int i = 0; i < kBuffers; ++i) {
      k_full[i].Init(1);
      k_empty[i].Init(kWarps);
      v_full[i].Init(1);
      v_empty[i].Init(kWarps);
    }
    FenceMbarrierInit();
  }
};

// Threads of the warp that fetches.
inline constexpr unsigned kAllLanes = 0xffffffff;

struct PromptArgs {
  PrefillRows rows;
  // A request's pages are page_table[first_page[request] + page].
  const int32_t* first_page;  // [requests]
  const uint32_t* page_table;
  // PickLists of rows [rows.first_row, rows.end_row); null: all pages.
  const uint32_t* picks;  // [rows, q_heads, capacity, 2]
  int64_t picks_row_stride;
  int64_t picks_list_stride;
  const int32_t* num_picks;  // [rows, q_heads]
  int64_t num_picks_stride;
  const int32_t* num_lists;  // [rows]
  PromptPlan* plan;
  // What items leave where their tiles' keys are cut, [max_items] of
  // PromptPartials; null: none are.
  float* partials;
  int max_items;
  int num_multiprocessors;
  __nv_bfloat16* out;  // [rows, q_heads, v_dim]
  int64_t out_row_stride;
  int64_t out_head_stride;
  float* lse;  // [rows, q_heads], or null
  int64_t lse_stride;
  int num_kv_heads;
  int group_heads;  // q heads a KV head
  int tokens_per_tile;
  float scale;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_MEMORY_CUH_
