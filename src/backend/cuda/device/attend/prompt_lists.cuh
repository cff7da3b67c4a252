// The union of the lists of picks of a tile's rows, one key tile after the
// other.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_LISTS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_LISTS_CUH_

#include "backend/cuda/device/attend/prompt_memory.cuh"

namespace winnow::device {

// Lists ascend, so the next key tile is the least that any list has next. All
// lanes of a warp call each of these; lane i has lists i, i + 32, ...
template <int kHeadDim>
class PromptMerge {
  static constexpr int32_t kEveryPage = -1;

 public:
  __device__ PromptMerge(const PromptArgs& args, PromptList* lists,
                         const PromptTile& tile)
      : args_(args), lists_(lists), tile_(tile), lane_(threadIdx.x % 32) {}

  // Finds the tile's lists; says how many of its rows have one together.
  __device__ int Start() {
    const int num_q_heads = args_.num_kv_heads * args_.group_heads;
    bool shared = true;  // among the q heads of a KV head
    for (int t = lane_; t < tile_.num_tokens; t += 32) {
      shared = shared && args_.num_lists[ListRow(t)] <= args_.num_kv_heads;
    }
    const int rows_per_list =
        __all_sync(kAllLanes, shared) ? args_.group_heads : 1;
    num_lists_ = tile_.num_tokens * args_.group_heads / rows_per_list;
    int key_tile = kNoKeyTile;
    for (int i = lane_; i < num_lists_; i += 32) {
      const int row = i * rows_per_list;  // of the tile
      const int64_t list_row = ListRow(row / args_.group_heads);
      const int head =
          tile_.kv_head * args_.group_heads + row % args_.group_heads;
      const int list = head * args_.num_lists[list_row] / num_q_heads;
      PromptList& found = lists_[i];
      found.next = 0;
      found.end = args_.num_picks[list_row * args_.num_picks_stride + list];
      found.picks = found.end == kEveryPage
                        ? nullptr
                        : args_.picks + list_row * args_.picks_row_stride +
                              list * args_.picks_list_stride;
      found.key_tile =
          found.picks == nullptr ? tile_.first_key_tile : NextKeyTile(found);
      key_tile = min(key_tile, found.key_tile);
    }
    key_tile_ = __reduce_min_sync(kAllLanes, key_tile);
    // Rows without a pick, which nobody should ask for, still come to an end.
    if (key_tile_ == kNoKeyTile) key_tile_ = tile_.first_key_tile;
    return rows_per_list;
  }

  // The next key tile that any list has picks in, or kNoKeyTile.
  __device__ int key_tile() const { return key_tile_; }

  // Writes which tokens of it each list names, and returns which of its pages
  // any does; goes on to the next.
  __device__ unsigned Next(uint4* picked) {
    unsigned pages = 0;
    int next_tile = kNoKeyTile;
    for (int i = lane_; i < num_lists_; i += 32) {
      PromptList& list = lists_[i];
      uint4 tokens = make_uint4(0, 0, 0, 0);
      if (list.key_tile == key_tile_) tokens = Take(list);
      picked[i] = tokens;
      pages |= (tokens.x != 0) | (tokens.y != 0) << 1 | (tokens.z != 0) << 2 |
               (tokens.w != 0) << 3;
      next_tile = min(next_tile, list.key_tile);
    }
    key_tile_ = __reduce_min_sync(kAllLanes, next_tile);
    return __reduce_or_sync(kAllLanes, pages);
  }

 private:
  // The row among those of the lists.
  __device__ int64_t ListRow(int token) const {
    return tile_.first_row + token - args_.rows.first_row;
  }

  __device__ static int NextKeyTile(const PromptList& list) {
    if (list.next >= list.end) return kNoKeyTile;
    return static_cast<int>(list.picks[2 * list.next]) / kPagesPerKeyTile;
  }

  // A list's tokens of its next key tile.
  __device__ uint4 Take(PromptList& list) const {
    if (list.picks == nullptr) {
      if (++list.key_tile == tile_.end_key_tile) list.key_tile = kNoKeyTile;
      return make_uint4(~0u, ~0u, ~0u, ~0u);
    }
    uint4 taken = make_uint4(0, 0, 0, 0);
    do {
      const uint32_t page = list.picks[2 * list.next] % kPagesPerKeyTile;
      const uint32_t tokens = list.picks[2 * list.next + 1];
      if (page == 0) taken.x |= tokens;
      if (page == 1) taken.y |= tokens;
      if (page == 2) taken.z |= tokens;
      if (page == 3) taken.w |= tokens;
      ++list.next;
    } while (NextKeyTile(list) == list.key_tile);
    list.key_tile = NextKeyTile(list);
    return taken;
  }

  const PromptArgs& args_;
  PromptList* lists_;  // [rows of a tile], in shared memory
  const PromptTile& tile_;
  const int lane_;
  int num_lists_ = 0;
  int key_tile_ = kNoKeyTile;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_LISTS_CUH_
