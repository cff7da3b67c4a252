// How a step's prefill rows are cut into tiles, and in which order the tiles
// are worked on. A tile is up to tokens_per_tile tokens of one request with all
// q heads of one KV head, so that its keys and values are loaded once for all.
// Where there are fewer tiles than multiprocessors, several may share the keys
// of one.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_TILES_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_TILES_CUH_

#include "backend/cuda/device/rows/step_rows.cuh"

namespace winnow::device {

// The prefill rows of a step that are read: those among [first_row, end_row).
struct PrefillRows {
  StepRows step;
  int first_row, end_row;

  // Of a request's tokens in the step, the first that is read.
  __device__ int FirstToken(int request) const {
    return max(0, first_row - step.first_row[request]);
  }
  __device__ int EndToken(int request) const {
    return min(step.num_prefill_rows[request],
               end_row - step.first_row[request]);
  }
  __device__ int NumTiles(int request, int tokens_per_tile) const {
    const int num_tokens = EndToken(request) - FirstToken(request);
    return (max(0, num_tokens) + tokens_per_tile - 1) / tokens_per_tile;
  }
  // Position behind the last.
  __device__ int EndPosition(int request) const {
    return step.first_position[request] + EndToken(request);
  }
};

// The tiles of one request: those from first_tile to the next run's.
struct PromptRun {
  int first_tile;
  int request;
};

// Parts that the keys of a tile are cut into at most, and the least that a part
// is worth: what it leaves for the merge is as large as the keys and values of
// two key tiles.
inline constexpr int kMaxKeyParts = 16;
inline constexpr int kLeastKeyTiles = 16;

// Written on the device before the tiles are read; runs follow it. An item is
// a tile, a KV head and a part of the tile's keys. Long tiles come first, so
// that the last ones to run are short, and only as many heads at a time as keep
// their keys and values in the L2 cache.
struct PromptPlan {
  int next_item;  // that no block has taken yet
  int num_tiles;
  int num_runs;
  int heads_at_once;
  int num_key_parts;  // of a tile, where it has enough keys; 1: all at once

  __device__ PromptRun* Runs() {
    return reinterpret_cast<PromptRun*>(this + 1);
  }
};

// An item of the plan, worked out. Rows of the tile are (token, q head of the
// group), heads fastest.
struct PromptTile {
  int first_row;       // of the step
  int num_tokens;      // 0: no tile is left
  int first_position;  // of the first row
  int request;
  int kv_head;
  int first_key_tile;  // of 128 keys
  int end_key_tile;
  int num_key_parts;  // 1: the item has them all
  int item;
  int rows_per_list;  // of picks

  __device__ int end_position() const { return first_position + num_tokens; }
};

// REQUIRES: tile < plan.num_tiles.
__device__ inline PromptTile PromptTileAt(PromptPlan& plan,
                                          const PrefillRows& rows, int tile,
                                          int tokens_per_tile) {
  int low = 0, high = plan.num_runs - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (plan.Runs()[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const PromptRun run = plan.Runs()[low];
  const int num_tiles = rows.NumTiles(run.request, tokens_per_tile);
  // The later a tile, the more keys it has.
  const int token = rows.FirstToken(run.request) +
                    (num_tiles - 1 - (tile - run.first_tile)) * tokens_per_tile;
  PromptTile found = {};
  found.request = run.request;
  found.first_row = rows.step.first_row[run.request] + token;
  found.num_tokens = min(tokens_per_tile, rows.EndToken(run.request) - token);
  found.first_position = rows.step.first_position[run.request] + token;
  return found;
}

// The tile and head of an item, all its keys; none where there are no more.
// tile_and_head: an item's number without its part.
__device__ inline PromptTile PromptTileAndHead(PromptPlan& plan,
                                               const PrefillRows& rows,
                                               int num_kv_heads,
                                               int tile_and_head,
                                               int tokens_per_tile) {
  const int tiles = plan.num_tiles;
  if (tile_and_head >= tiles * num_kv_heads) return {};
  const int first_head =
      tile_and_head / (tiles * plan.heads_at_once) * plan.heads_at_once;
  const int num_heads = min(plan.heads_at_once, num_kv_heads - first_head);
  const int rest = tile_and_head - first_head * tiles;
  PromptTile tile = PromptTileAt(plan, rows, rest / num_heads, tokens_per_tile);
  tile.kv_head = first_head + rest % num_heads;
  tile.first_key_tile = rows.step.FirstVisible(tile.first_position) / 128;
  tile.end_key_tile = (tile.end_position() + 127) / 128;
  const int num_key_tiles = tile.end_key_tile - tile.first_key_tile;
  tile.num_key_parts =
      max(1, min(plan.num_key_parts, num_key_tiles / kLeastKeyTiles));
  return tile;
}

// The same with the item's part of the keys: none (num_tokens = 0) where there
// are no more, an empty range where the tile has fewer parts.
__device__ inline PromptTile PromptItem(PromptPlan& plan,
                                        const PrefillRows& rows,
                                        int num_kv_heads, int item,
                                        int tokens_per_tile) {
  const int part = item % plan.num_key_parts;
  PromptTile tile = PromptTileAndHead(
      plan, rows, num_kv_heads, item / plan.num_key_parts, tokens_per_tile);
  if (tile.num_tokens == 0) return tile;
  const int first = tile.first_key_tile;
  const int num_key_tiles = tile.end_key_tile - first;
  const int parts = tile.num_key_parts;
  const int begin = min(part, parts), end = min(part + 1, parts);
  tile.first_key_tile = first + num_key_tiles * begin / parts;
  tile.end_key_tile = first + num_key_tiles * end / parts;
  return tile;
}

// Into how many parts the keys of tiles are cut so that the multiprocessors end
// together: the fewest after which more parts save less than a tenth. In units
// of a tile's time, that of p parts is rounds of items / p.
__device__ inline int ChooseKeyParts(int num_items, int num_multiprocessors,
                                     int max_items) {
  const int most = min(kMaxKeyParts, max_items / max(1, num_items));
  int best = 1;
  float best_time = 1e30f;
  for (int parts = 1; parts <= most; ++parts) {
    const int rounds =
        (num_items * parts + num_multiprocessors - 1) / num_multiprocessors;
    const float time = static_cast<float>(rounds) / static_cast<float>(parts);
    if (time >= 0.9f * best_time) continue;
    best = parts;
    best_time = time;
  }
  return best;
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_PROMPT_TILES_CUH_
