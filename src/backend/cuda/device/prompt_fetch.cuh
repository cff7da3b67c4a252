// One warp of a block of prompt attention: takes tiles, and keeps copies of
// their queries, keys and values under way.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_PROMPT_FETCH_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_PROMPT_FETCH_CUH_

#include "backend/cuda/device/prompt_memory.cuh"
#include "backend/cuda/device/tma.cuh"

namespace winnow::device {

// All of the warp's lanes call each of these.
template <int kHeadDim>
class PromptFetch {
  using Shape = PromptShape<kHeadDim>;
  using Memory = PromptMemory<kHeadDim>;
  static constexpr unsigned kAllLanes = 0xffffffff;

 public:
  // q_map: [rows, q_heads, k_dim]. kv_map: [extents, kv_heads, 2 (K, V), 32
  // tokens, dim].
  __device__ PromptFetch(const CUtensorMap& q_map, const CUtensorMap& kv_map,
                         const PromptArgs& args, Memory& memory)
      : q_map_(q_map),
        kv_map_(kv_map),
        args_(args),
        memory_(memory),
        lane_(threadIdx.x % 32) {}

  __device__ void Run() {
    for (;;) {
      const PromptTile tile =
          PromptItem(*args_.plan, args_.rows, args_.num_kv_heads, TakeItem(),
                     args_.tokens_per_tile);
      FetchQueries(tile);
      if (tile.num_tokens == 0) return;
      FetchKeysAndValues(tile);
    }
  }

 private:
  // Not before the last item's copies have been asked for: what a block takes
  // early, it keeps from others that have nothing to do.
  __device__ int TakeItem() {
    int item = 0;
    if (lane_ == 0) item = atomicAdd(&args_.plan->next_item, 1);
    return __shfl_sync(kAllLanes, item, 0);
  }

  __device__ void FetchQueries(const PromptTile& tile) {
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

  // In the order in which they are used: the keys of a tile before the values
  // of the one before it.
  __device__ void FetchKeysAndValues(const PromptTile& tile) {
    const uint32_t* table =
        args_.page_table + tile.request * args_.page_table_stride;
    // What stands behind the last page means nothing.
    const int end_page =
        (tile.end_position() + kTokensPerPage - 1) / kTokensPerPage;
    uint32_t extent = 0, extent_before = 0;
    uint32_t extents = 0;  // of 32 pages, one a lane
    for (int t = tile.first_key_tile; t < tile.end_key_tile; ++t) {
      const int first_page = t * kPagesPerKeyTile;
      if (t == tile.first_key_tile || first_page % 32 == 0) {
        const int page = first_page / 32 * 32 + lane_;
        extents = page < end_page ? table[page] : 0;
      }
      extent_before = extent;
      extent = __shfl_sync(kAllLanes, extents,
                           first_page % 32 + lane_ / Shape::kChunks % 4);
      const int num_pages = min(kPagesPerKeyTile, end_page - first_page);
      Fetch(0, extent, tile.kv_head, num_pages, k_place_);
      if (t > tile.first_key_tile) {
        Fetch(1, extent_before, tile.kv_head, kPagesPerKeyTile, v_place_);
      }
    }
    const int last_pages =
        end_page - (tile.end_key_tile - 1) * kPagesPerKeyTile;
    Fetch(1, extent, tile.kv_head, last_pages, v_place_);
  }

  // K (which = 0) or V (1) of a key tile, into the next buffer. Lane i copies
  // chunk i % kChunks of page i / kChunks, which lies in its `extent`.
  __device__ void Fetch(int which, uint32_t extent, int kv_head, int num_pages,
                        RingPlace<Shape::kBuffers>& place) {
    const int i = place.index;
    Mbarrier& empty = which == 0 ? memory_.k_empty[i] : memory_.v_empty[i];
    Mbarrier& full = which == 0 ? memory_.k_full[i] : memory_.v_full[i];
    uint8_t* to = which == 0 ? memory_.k[i] : memory_.v[i];
    empty.Wait(place.parity ^ 1);
    if (lane_ == 0) {
      full.ArriveExpecting(num_pages * Shape::kChunks * Shape::kPageBytes);
    }
    __syncwarp();
    if (lane_ < num_pages * Shape::kChunks) {
      const int chunk = lane_ % Shape::kChunks, page = lane_ / Shape::kChunks;
      CopyBox(
          kv_map_,
          {chunk * Shape::kChunk, 0, which, kv_head, static_cast<int>(extent)},
          to + chunk * Shape::kKeyChunkBytes + page * Shape::kPageBytes, full);
    }
    place.Next();
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

#endif  // WINNOW_BACKEND_CUDA_DEVICE_PROMPT_FETCH_CUH_
