// One warp of a block of prompt attention: takes tiles, and keeps copies of
// their queries, keys and values under way.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_LOAD_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_LOAD_CUH_

#include "backend/cuda/device/attend/prompt_lists.cuh"
#include "backend/cuda/device/attend/prompt_memory.cuh"
#include "backend/cuda/device/runtime/tma.cuh"

namespace winnow::device {

// All of the warp's lanes call each of these.
template <int kHeadDim, bool kPicks>
class PromptLoad {
  using Shape = PromptShape<kHeadDim>;
  using Memory = PromptMemory<kHeadDim>;
  static constexpr uint32_t kNowhere = 0xffffffff;

 public:
  // q_map: [rows, q_heads, k_dim]. kv_map: [KV blocks, kv_heads, 2 (K, V), 32
  // tokens, dim].
  __device__ PromptLoad(const CUtensorMap& q_map, const CUtensorMap& kv_map,
                        const PromptArgs& args, Memory& memory)
      : q_map_(q_map),
        kv_map_(kv_map),
        args_(args),
        memory_(memory),
        lane_(threadIdx.x % 32) {}

  __device__ void Run() {
    for (;;) {
      PromptTile tile = NextTile();
      PromptMerge<kHeadDim> merge(args_, memory_.lists, tile);
      if constexpr (kPicks) tile.rows_per_list = merge.Start();
      LoadQueries(tile);
      if (tile.num_tokens == 0) return;
      if constexpr (kPicks) {
        LoadPicked(tile, merge);
      } else {
        LoadAll(tile);
      }
    }
  }

 private:
  // Of the next item that has keys.
  __device__ PromptTile NextTile() {
    for (;;) {
      const int item = TakeItem();
      PromptTile tile = PromptItem(*args_.plan, args_.rows, args_.num_kv_heads,
                                   item, args_.tokens_per_tile);
      tile.item = item;
      if (tile.num_tokens == 0 || tile.first_key_tile < tile.end_key_tile) {
        return tile;
      }
    }
  }

  // Not before the last item's copies have been asked for: what a block takes
  // early, it keeps from others that have nothing to do.
  __device__ int TakeItem() {
    int item = 0;
    if (lane_ == 0) item = atomicAdd(&args_.plan->next_item, 1);
    return __shfl_sync(kAllLanes, item, 0);
  }

  __device__ void LoadQueries(const PromptTile& tile) {
    const int i = place_.index;
    memory_.tile_empty[i].Wait(place_.parity ^ 1);
    if (lane_ == 0) {
      memory_.tile[i] = tile;
      if (tile.num_tokens == 0) {
        memory_.tile_full[i].Arrive();
      } else {
        // Rows behind the step's last are filled with zeros, and counted.
        memory_.tile_full[i].ArriveExpecting(args_.tokens_per_tile *
                                             args_.group_heads * 2 * kHeadDim);
#pragma unroll
        for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
          CopyBox(q_map_,
                  {chunk * Shape::kChunk, tile.kv_head * args_.group_heads,
                   tile.first_row},
                  memory_.q[i] + chunk * Shape::kRowChunkBytes,
                  memory_.tile_full[i]);
        }
      }
    }
    __syncwarp();
    place_.Next();
  }

  // Keys and values, in the order in which they are used: the keys of a tile
  // before the values of the one before it.
  __device__ void LoadAll(const PromptTile& tile) {
    uint32_t kv_block = 0, kv_block_before = 0;
    uint32_t kv_blocks = 0;  // of 32 pages, one a lane
    for (int t = tile.first_key_tile; t < tile.end_key_tile; ++t) {
      const int first_page = t * kPagesPerKeyTile;
      if (t == tile.first_key_tile || first_page % 32 == 0) {
        kv_blocks = KvBlock(tile, first_page / 32 * 32 + lane_);
      }
      kv_block_before = kv_block;
      kv_block = __shfl_sync(kAllLanes, kv_blocks, first_page % 32 + Page());
      AwaitEmpty(memory_.k_empty, k_place_);
      LoadKeys(kv_block, tile.kv_head);
      if (t > tile.first_key_tile) LoadValues(kv_block_before, tile.kv_head);
    }
    LoadValues(kv_block, tile.kv_head);
  }

  // The same, of the tiles in which any list has picks, and of these the pages.
  __device__ void LoadPicked(const PromptTile& tile,
                             PromptMerge<kHeadDim>& merge) {
    uint32_t kv_block = 0, kv_block_before = 0;
    for (bool is_first = true, is_last = false; !is_last; is_first = false) {
      const int i = k_place_.index;
      AwaitEmpty(memory_.k_empty, k_place_);
      const int key_tile = merge.key_tile();
      const unsigned pages = merge.Next(memory_.picked[i]);
      is_last = merge.key_tile() == kNoKeyTile;
      if (lane_ == 0) {
        memory_.key_tile[i] = key_tile;
        memory_.is_last[i] = is_last;
      }
      __syncwarp();
      kv_block_before = kv_block;
      kv_block = (pages >> Page() & 1) != 0
                     ? KvBlock(tile, key_tile * kPagesPerKeyTile + Page())
                     : kNowhere;
      LoadKeys(kv_block, tile.kv_head);
      if (!is_first) LoadValues(kv_block_before, tile.kv_head);
    }
    LoadValues(kv_block, tile.kv_head);
  }

  // Lane i copies chunk i % kChunks of page i / kChunks of a key tile.
  __device__ int Page() const { return lane_ / Shape::kChunks % 4; }

  // Where a page lies. What stands behind the last page of the table means
  // nothing.
  __device__ uint32_t KvBlock(const PromptTile& tile, int page) const {
    const uint32_t* table = args_.page_table + args_.first_page[tile.request];
    return page * kTokensPerPage < tile.end_position() ? table[page] : kNowhere;
  }

  template <int kSize>
  __device__ static void AwaitEmpty(Mbarrier (&empty)[kSize],
                                    const RingPlace<kSize>& place) {
    empty[place.index].Wait(place.parity ^ 1);
  }

  // REQUIRES: the next buffer is empty.
  __device__ void LoadKeys(uint32_t kv_block, int kv_head) {
    const int i = k_place_.index;
    Copy({0, kv_head, kv_block}, memory_.k[i], memory_.k_full[i]);
    k_place_.Next();
  }

  __device__ void LoadValues(uint32_t kv_block, int kv_head) {
    AwaitEmpty(memory_.v_empty, v_place_);
    const int i = v_place_.index;
    Copy({1, kv_head, kv_block}, memory_.v[i], memory_.v_full[i]);
    v_place_.Next();
  }

  struct Source {
    int which;  // 0: keys, 1: values
    int kv_head;
    uint32_t kv_block;  // of this lane's page
  };

  // A page that lies nowhere is outside of the map: it arrives as zeros.
  __device__ void Copy(const Source& from, uint8_t* to, Mbarrier& full) {
    if (lane_ == 0) {
      full.ArriveExpecting(kPagesPerKeyTile * Shape::kChunks *
                           Shape::kPageBytes);
    }
    __syncwarp();
    if (lane_ < kPagesPerKeyTile * Shape::kChunks) {
      const int chunk = lane_ % Shape::kChunks;
      CopyBox(kv_map_,
              {chunk * Shape::kChunk, 0, from.which, from.kv_head,
               static_cast<int>(from.kv_block)},
              to + chunk * Shape::kKeyChunkBytes + Page() * Shape::kPageBytes,
              full);
    }
  }

  const CUtensorMap& q_map_;
  const CUtensorMap& kv_map_;
  const PromptArgs& args_;
  Memory& memory_;
  const int lane_;
  RingPlace<Memory::kTiles> place_;
  RingPlace<Shape::kBuffers> k_place_, v_place_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_LOAD_CUH_
