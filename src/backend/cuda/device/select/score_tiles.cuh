// A warp's tiles of summary rows, scored and put where they are wanted.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_SCORE_TILES_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_SCORE_TILES_CUH_

#include "backend/cuda/device/attend/tile_ring.cuh"
#include "backend/cuda/device/runtime/async_copy.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/select/select_tile.cuh"

namespace winnow::device {

// Of a block that scores.
constexpr int kScoreWarps = 4;

// What a launch scores: one selector's levels of one shape.
struct ScoreTask {
  StepRows rows;
  Pages pages;
  Selector selector;
  ScoreMemory memory;
  int selector_index;
  const int32_t* first_token;  // [requests]: SelectArgs has it; or null
  int num_blocks[2];           // of each level, in a row of the grid
  int first_row;               // of the wave
  const void* q;    // [rows, q_heads, k_dim]: a gate has one a KV head
  int first_q_row;  // of the step
  FloatType q_type;
  int64_t q_row_stride, q_head_stride;
  int num_heads;     // q heads a KV head
  int padded_heads;  // up to the heads that are scored at a time
  int width;         // of a summary row, in elements
  float scale;
};

__device__ inline float LoadQuery(const ScoreTask& task, int row, int head,
                                  int channel) {
  return LoadFloat(task.q, task.q_type,
                   (row - task.first_q_row) * task.q_row_stride +
                       head * task.q_head_stride + channel);
}

// The queries of a KV head's group. A bound is an inner product too:
// sum_c max(q_c min_c, q_c max_c) is that of the negative parts of q with the
// least and of the positive ones with the greatest.
template <typename Tile>
__device__ void LoadQueries(const ScoreTask& task, int row, int kv_head,
                            void* q) {  // [padded heads, width]
  const int k_dim = task.pages.k_dim;
  const bool is_bound = task.width > k_dim;
  const auto store = [&](int head, int element, float value) {
    Tile::StoreQuery(q, Tile::QueryIndex(head, element, task.width), value);
  };
  constexpr int kAtOnce = 4;  // loads under way together
  const int lane = threadIdx.x % 32;
  for (int head = threadIdx.x / 32; head < task.padded_heads;
       head += kScoreWarps) {
    for (int first = lane; first < k_dim; first += 32 * kAtOnce) {
      float values[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int channel = first + 32 * i;
        if (head >= task.num_heads || channel >= k_dim) continue;
        values[i] =
            LoadQuery(task, row, kv_head * task.num_heads + head, channel);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int channel = first + 32 * i;
        const float value = values[i];
        if (channel >= k_dim) break;
        // A NaN stays one.
        store(head, channel, is_bound && value > 0 ? 0.0f : value);
        if (is_bound) store(head, k_dim + channel, value < 0 ? 0.0f : value);
      }
    }
  }
}

// Which rows of which level a block has.
struct ScorePlace {
  int row;  // of the step
  int wave_row;
  int kv_head;
  int level;
  int num_visible;
};

// A cluster without tokens, and what is fixed, have no part in a softmax.
__device__ inline bool CountsInSoftmax(const ScoreTask& task,
                                       const ScorePlace& place, int head,
                                       int row) {
  const Selector& selector = task.selector;
  if (!selector.HasClusters() && !selector.Fixes()) return true;
  const int request = task.rows.Request(place.row);
  if (selector.HasClusters()) {
    return selector.summaries.NumTokensOf(request, place.kv_head, row) > 0;
  }
  const int list = selector.fixed.num_lists == 1 ? 0 : head;
  return !selector.fixed.Has(request, place.kv_head, list,
                             row * selector.summaries.levels[0].stride);
}

// Puts a tile's scores where they are wanted: lane l has slot l.
__device__ inline void WriteTile(
    const ScoreTask& task, const ScorePlace& place,
    const float* scores,  // f32 [heads, kTileStride]
    int slot) {
  const Selector& selector = task.selector;
  const int lane = threadIdx.x % 32;
  const int j = slot + lane - selector.summaries.levels[place.level].lead;
  const bool valid = j >= 0 && j < place.num_visible;
  const int first_head = place.kv_head * task.num_heads;
  const bool finishes = !selector.NeedsReduce();
  if (place.level == 0 && selector.SumsGroups()) {
    float sum = scores[lane];
    for (int head = 1; head < task.num_heads; ++head) {
      sum = selector.Reduce(sum, scores[head * kTileStride + lane]);
    }
    if (finishes) sum = selector.FinishRow(sum, task.num_heads);
    if (valid) task.memory.Plane(place.wave_row, place.kv_head)[j] = sum;
  } else if (place.level == 0 && valid) {
    for (int head = 0; head < task.num_heads; ++head) {
      const float score = scores[head * kTileStride + lane];
      task.memory.Plane(place.wave_row, first_head + head)[j] =
          finishes ? selector.FinishRow(score, 1) : score;
    }
  }
  if (place.level != selector.NormalizingLevel()) return;
  for (int head = 0; head < task.num_heads; ++head) {
    const bool counts = valid && CountsInSoftmax(task, place, head, j);
    const float2 part =
        PartOfLse(scores[head * kTileStride + lane], counts, task.scale);
    if (lane == 0) {
      task.memory.Partials(place.wave_row,
                           first_head + head)[slot / kTileSlots] = part;
    }
  }
}

// The block's tiles: warp w of block b of n has tiles b * kScoreWarps + w, and
// every n * kScoreWarps-th from there on.
struct TileWalk {
  LevelRows rows;
  int begin, end;          // the slots that have rows
  int slot, stride;        // this warp's first tile, and from tile to tile
  const std::byte* first;  // the tile's first row, where there is one

  __device__ TileWalk(const ScoreTask& task, const ScorePlace& place, int block)
      : rows{task.pages,
             task.selector.summaries,
             task.selector.summaries.levels[place.level],
             place.level,
             task.rows.Request(place.row),
             place.kv_head},
        begin(rows.of.lead),
        end(place.num_visible + rows.of.lead),
        slot((block * kScoreWarps + static_cast<int>(threadIdx.x) / 32) *
             kTileSlots),
        stride(task.num_blocks[place.level] * kScoreWarps * kTileSlots),
        first(slot < end ? rows.Slot(slot) : nullptr) {}

  // By way of `places`, this warp's.
  __device__ TileRing Ring(std::byte* places) const {
    return TileRing(rows, {begin, end, slot, stride}, first, places);
  }

  // Asks for the first tile's rows, as far as they are one run of bytes: into
  // L2, where it does no harm should they be written meanwhile.
  __device__ void LoadFirst() const {
    if (slot >= end || !rows.Adjacent()) return;
    constexpr int kLineBytes = 128;
    const int from = (max(begin, slot) - slot) * rows.of.row_bytes;
    const int to = (min(end, slot + kTileSlots) - slot) * rows.of.row_bytes;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int at = from + lane * kLineBytes; at < to; at += 32 * kLineBytes) {
      LoadIntoL2(first + at);
    }
  }

  template <typename Tile>
  __device__ void Score(const ScoreTask& task, const ScorePlace& place,
                        const void* q, float* scores) {
    for (; slot < end; slot += stride) {
      const TileRows tile = {rows, first, slot, begin, end};
      // Found out before it is wanted.
      if (slot + stride < end) first = rows.Slot(slot + stride);
      Tile::Score(tile, {q, task.num_heads, task.width}, scores);
      __syncwarp();
      WriteTile(task, place, scores, slot);
      __syncwarp();
    }
  }

  // The same of rows that come by way of `ring`.
  template <typename Tile>
  __device__ void ScoreStaged(const ScoreTask& task, const ScorePlace& place,
                              TileRing& ring, const void* q, float* scores) {
    for (; slot < end; slot += stride) {
#pragma unroll 1
      for (int row = 0; row < kTileSlots; row += StagedRows::kRows) {
        Tile::Score(ring.Next(), {q, task.num_heads, task.width}, scores + row);
      }
      __syncwarp();
      WriteTile(task, place, scores, slot);
      __syncwarp();
    }
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_SCORE_TILES_CUH_
