// Scores of what may be fixed, and the choice among them, by a block a list.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_SCORES_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_SCORES_CUH_

#include "backend/cuda/device/rows/row_sum.cuh"
#include "backend/cuda/device/runtime/float8.cuh"
#include "backend/cuda/device/select/mask_list.cuh"
#include "backend/cuda/device/select/select_tile.cuh"

namespace winnow::device {

// Queries whose attention is summed at a time: a lane each where a log-sum-exp
// is formed.
constexpr int kObservedQueries = 32;

// One selector's choices.
struct FixTask {
  StepRows rows;
  Pages pages;
  Selector selector;
  Summaries keys_as_rows;  // level 0: the keys themselves
  int selector_index;
  const int32_t* first_token;  // [requests]
  int num_kv_heads;
  FloatType q_type, row_type;
  bool rows_are_float8;
  float scale;
  int pool_size, pool_pad;
  bool pools_mean;   // else the greatest
  float* sums;       // f32 [blocks, capacity]: attention; or null
  uint32_t* keys;    // u32 [blocks, capacity]
  int64_t capacity;  // of a block
};

// A request whose end is reached, and one of its lists.
struct FixPlace {
  int request, kv_head;
  int list;  // of the KV head's
  int end;
};

// What the threads of a block tell each other while they observe.
struct ObserveMemory {
  float2 of_warps[kChooseWarps][kObservedQueries];
  float lse[kObservedQueries];
};

// Leaves keys of the free partitions' scores in `keys`, [first_free, end_free)
// of `budget`, a __syncthreads() behind them. All threads call each method.
template <typename Tile>
class FixedScores {
 public:
  __device__ FixedScores(const FixTask& task, const FixPlace& place,
                         const RowBudget& budget, float* sums, uint32_t* keys)
      : task_(task),
        place_(place),
        budget_(budget),
        sums_(sums),
        keys_(keys),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  // The attention that tokens have from the last queries, pooled. `q` and
  // `scores`: shared memory, [queries] as Tile has them and
  // f32 [warps, queries, kTileStride].
  __device__ void Observe(ObserveMemory& memory, void* q, float* scores) {
    const FixedTable& table = task_.selector.fixed;
    const int heads = table.group_heads / table.num_lists;
    const int num_positions = min(table.window_tokens, place_.end);
    const int num_queries = heads * num_positions;
    float* of_warp = scores + warp_ * kObservedQueries * kTileStride;
    for (int first = 0; first < num_queries; first += kObservedQueries) {
      const int count = min(num_queries - first, kObservedQueries);
      LoadQueries(first, count, num_positions, q);
      __syncthreads();
      FindLse(first, count, num_positions, q, of_warp, memory);
      __syncthreads();
      AddAttention(first, count, q, of_warp, memory);
      __syncthreads();  // Or queries would be overwritten while they are read.
    }
    Pool();
  }

  // How little a partition's row says of the one of its keys that it says least
  // of: a warp a partition, lanes over channels.
  template <typename Kv>
  __device__ void ScoreOutliers() {
    const int k_dim = task_.pages.k_dim;
    constexpr float kLeastNorm = 1e-8f;  // as PyTorch's cosine_similarity
    for (int b = budget_.first_free + warp_; b < budget_.end_free;
         b += kChooseWarps) {
      const std::byte* row = task_.selector.summaries.Slot(
          place_.request, place_.kv_head, 0,
          b + task_.selector.summaries.levels[0].lead);
      float of_row = 0;
      for (int c = lane_; c < k_dim; c += 32) {
        const float x = Channel(row, c);
        of_row += x * x;
      }
      const float row_norm = fmaxf(sqrtf(WarpSum(of_row)), kLeastNorm);
      float least = INFINITY;
      const int block = task_.selector.block_tokens;
      for (int token = b * block; token < (b + 1) * block; ++token) {
        const Kv* key =
            reinterpret_cast<const Kv*>(task_.pages.Slice(
                place_.request, token / kTokensAPage, place_.kv_head)) +
            token % kTokensAPage * k_dim;
        float dot = 0, of_key = 0;
        for (int c = lane_; c < k_dim; c += 32) {
          const float x = ToFloat(key[c]);
          dot += Channel(row, c) * x;
          of_key += x * x;
        }
        const float key_norm = fmaxf(sqrtf(WarpSum(of_key)), kLeastNorm);
        const float cosine = WarpSum(dot) / (row_norm * key_norm);
        least = cosine < least ? cosine : least;
      }
      if (lane_ == 0) keys_[b - budget_.first_free] = KeyOf(-least);
    }
    __syncthreads();
  }

 private:
  // A query's place in the line: heads, and of each its positions in order.
  struct Query {
    int head;  // of the KV head's
    int position;
  };
  __device__ Query QueryOf(int index, int num_positions) const {
    const FixedTable& table = task_.selector.fixed;
    const int first_head = place_.list * (table.group_heads / table.num_lists);
    return {first_head + index / num_positions,
            place_.end - num_positions + index % num_positions};
  }

  // Zeros behind the last.
  __device__ void LoadQueries(int first, int count, int num_positions,
                              void* q) const {
    const FixedTable& table = task_.selector.fixed;
    const int k_dim = task_.pages.k_dim;
    const std::byte* kept = table.Queries(place_.request, place_.kv_head);
    for (int i = threadIdx.x; i < kObservedQueries * k_dim;
         i += kChooseThreads) {
      const int index = i / k_dim, c = i % k_dim;
      float value = 0;
      if (index < count) {
        const Query query = QueryOf(first + index, num_positions);
        const int64_t at =
            int64_t{query.position % table.window_tokens} * table.group_heads +
            query.head;
        value = LoadFloat(kept, task_.q_type, at * k_dim + c);
      }
      Tile::StoreQuery(q, Tile::QueryIndex(index, c, k_dim), value);
    }
  }

  // f(first slot) for this warp's tiles of tokens below `end`, with their
  // scores in `scores`: which warp has one depends on its number alone.
  template <typename F>
  __device__ void ForEachTile(int end, const void* q, float* scores,
                              F&& f) const {
    const LevelRows rows = {
        task_.pages, task_.keys_as_rows, task_.keys_as_rows.levels[0],
        0,           place_.request,     place_.kv_head};
    for (int slot = warp_ * kTileSlots; slot < end;
         slot += kChooseWarps * kTileSlots) {
      const TileRows tile = {rows, rows.Slot(slot), slot, 0, place_.end};
      Tile::Score(tile, {q, kObservedQueries, task_.pages.k_dim}, scores);
      __syncwarp();
      f(slot);
      __syncwarp();
    }
  }

  // memory.lse of each query: over the tokens up to its own.
  __device__ void FindLse(int first, int count, int num_positions,
                          const void* q, float* scores,
                          ObserveMemory& memory) const {
    const int last =
        lane_ < count ? QueryOf(first + lane_, num_positions).position : -1;
    float greatest = -INFINITY, sum = 0;
    ForEachTile(place_.end, q, scores, [&](int slot) {
      const float4* mine =
          reinterpret_cast<const float4*>(scores + lane_ * kTileStride);
      float exponents[kTileSlots];
      float of_tile = greatest;
#pragma unroll
      for (int i = 0; i < kTileSlots / 4; ++i) {
        const float4 four = mine[i];
        const float numbers[] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int at = 4 * i + k;
          exponents[at] =
              slot + at <= last ? numbers[k] * task_.scale : -INFINITY;
          of_tile = fmaxf(of_tile, exponents[at]);
        }
      }
      if (of_tile == -INFINITY) return;
      sum *= greatest == -INFINITY ? 0.0f : expf(greatest - of_tile);
      greatest = of_tile;
#pragma unroll
      for (int i = 0; i < kTileSlots; ++i) sum += expf(exponents[i] - greatest);
    });
    memory.of_warps[warp_][lane_] = make_float2(greatest, sum);
    __syncthreads();
    if (warp_ != 0) return;
    greatest = -INFINITY;
    for (int i = 0; i < kChooseWarps; ++i) {
      greatest = fmaxf(greatest, memory.of_warps[i][lane_].x);
    }
    sum = 0;
    for (int i = 0; i < kChooseWarps; ++i) {
      const float2 part = memory.of_warps[i][lane_];
      if (part.y != 0) sum += part.y * expf(part.x - greatest);
    }
    memory.lse[lane_] = greatest + logf(sum);
  }

  // sums[t] += the queries' attention to token t, in their order: what may be
  // fixed stands before all of them.
  __device__ void AddAttention(int first, int count, const void* q,
                               float* scores, const ObserveMemory& memory) {
    ForEachTile(budget_.end_free, q, scores, [&](int slot) {
      const int token = slot + lane_;
      if (token >= budget_.end_free) return;
      float sum = first == 0 ? 0.0f : sums_[token];
      for (int i = 0; i < count; ++i) {
        sum +=
            expf(scores[i * kTileStride + lane_] * task_.scale - memory.lse[i]);
      }
      sums_[token] = sum;
    });
  }

  // Keys of the tokens' sums, pooled over those around them. What lies outside
  // counts as 0 in a mean.
  __device__ void Pool() const {
    for (int token = budget_.first_free + static_cast<int>(threadIdx.x);
         token < budget_.end_free; token += kChooseThreads) {
      const int begin = max(token - task_.pool_pad, 0);
      const int end =
          min(token - task_.pool_pad + task_.pool_size, budget_.end_free);
      float result = sums_[begin];
      for (int i = begin + 1; i < end; ++i) {
        result = task_.pools_mean    ? result + sums_[i]
                 : result < sums_[i] ? sums_[i]
                                     : result;
      }
      if (task_.pools_mean) result /= static_cast<float>(task_.pool_size);
      keys_[token - budget_.first_free] = KeyOf(result);
    }
    __syncthreads();
  }

  __device__ float Channel(const std::byte* row, int c) const {
    if (!task_.rows_are_float8) return LoadFloat(row, task_.row_type, c);
    return ToFloat(reinterpret_cast<const Float8*>(row)[c]) *
           Float8ScaleOf(row, task_.pages.k_dim);
  }

  const FixTask& task_;
  const FixPlace& place_;
  const RowBudget& budget_;
  float* const sums_;     // f32 [tokens before end_free]
  uint32_t* const keys_;  // u32 [free partitions]
  const int lane_, warp_;
};

// Sets the bits of what a list has fixed: the best of `keys`, as many as fit.
__device__ inline void WriteFixed(const FixTask& task, const FixPlace& place,
                                  const RowBudget& budget, const uint32_t* keys,
                                  CutScratch& scratch) {
  const FixedTokens words =
      task.selector.fixed.Tokens(place.request, place.kv_head, place.list);
  const int block = task.selector.block_tokens;
  const int num_free = budget.end_free - budget.first_free;
  const bool all = budget.num_fixed == num_free;
  const int num_words = (place.end + kTokensAPage - 1) / kTokensAPage;
  for (int i = threadIdx.x; i < num_words; i += kChooseThreads) {
    words[i] = all ? TokensOfPage(i, budget.first_free * block,
                                  budget.end_free * block)
                   : 0;
  }
  __syncthreads();
  if (all || budget.num_fixed == 0) return;
  const Cut cut = FindCut(keys, num_free, budget.num_fixed, scratch);
  MarkPartitions({keys, num_free, budget.first_free, block}, cut, words,
                 scratch.of_warps);
}

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_SELECT_FIXED_SCORES_CUH_
