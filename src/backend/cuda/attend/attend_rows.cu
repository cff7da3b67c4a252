#include "backend/cuda/attend/attend_lists.h"
#include "backend/cuda/attend/attend_rows.h"
#include "backend/cuda/device/attend/attend_lists.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/step_views.h"

namespace winnow {
namespace {

using device::PageTokens;
using device::RowAttention;

constexpr int kWarps = device::kAttendUnitPages;  // a page each
constexpr int kThreads = 32 * kWarps;
constexpr int kMaxPieces = 4;
static_assert(kThreads == device::kAttendUnitTokens);  // a key each

// A tensor of rows and heads whose type is known when the kernel runs.
struct RowsOfHeads {
  std::byte* data;
  Dtype dtype;
  int64_t row_stride, head_stride;

  __device__ int64_t At(int64_t row, int head) const {
    return row * row_stride + head * head_stride;
  }
  __device__ float Load(int64_t i) const {
    if (dtype == Dtype::kFloat32) return reinterpret_cast<float*>(data)[i];
    if (dtype == Dtype::kBFloat16) {
      return device::ToFloat(reinterpret_cast<__nv_bfloat16*>(data)[i]);
    }
    return device::ToFloat(reinterpret_cast<__half*>(data)[i]);
  }
  __device__ void Store(int64_t i, float value) const {
    if (dtype == Dtype::kFloat32) {
      reinterpret_cast<float*>(data)[i] = value;
    } else if (dtype == Dtype::kBFloat16) {
      reinterpret_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
    } else {
      reinterpret_cast<__half*>(data)[i] = __float2half_rn(value);
    }
  }
};

struct Arguments {
  device::StepRows rows;
  device::AttendLists lists;
  device::Pages pages;
  RowsOfHeads q;    // [rows, q_heads, k_dim]
  RowsOfHeads out;  // [rows, q_heads, v_dim]
  float* lse;       // [rows, q_heads], or null
  int64_t lse_stride;
  int v_stride;  // from one token's values to the next one's
  int slot_tokens;
  float scale;
  RowKinds kinds;
};

// The softmax over the keys seen so far. A thread holds the values
// [kSlots] of dimensions threadIdx.x + i * kThreads; maximum and sum are the
// same in all threads.
template <int kSlots>
struct State {
  float maximum = -INFINITY;
  float sum = 0;
  float values[kSlots] = {};

  // Takes in the state of later keys.
  __device__ void Merge(const State& later) {
    if (later.maximum == -INFINITY) return;
    const float greatest = fmaxf(maximum, later.maximum);
    const float keep = maximum == -INFINITY ? 0 : expf(maximum - greatest);
    const float take = expf(later.maximum - greatest);
    maximum = greatest;
    sum = __fmaf_rn(later.sum, take, sum * keep);
    for (int i = 0; i < kSlots; ++i) {
      values[i] = __fmaf_rn(later.values[i], take, values[i] * keep);
    }
  }
};

// What the threads of a block tell each other about a tile.
struct Tile {
  // Of a page's pieces: the slice in which each lies, and how much further on
  // its tokens stand there. One piece where pages are whole.
  const std::byte* slices[kWarps][kMaxPieces];
  int shifts[kWarps][kMaxPieces];
  uint32_t tokens[kWarps];
  float maxima[kWarps];
  float sums[kWarps];
  float weights[kThreads];
};

__device__ float WarpMax(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
  }
  return value;
}
__device__ float WarpSum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(~0u, value, distance);
  }
  return value;
}

// A block's view of one row and q head. `q` lies in shared memory as float32.
template <typename Kv, int kSlots>
struct HeadRow {
  const Arguments& args;
  const RowAttention reading;
  const int request;
  const int kv_head;
  const float* q;  // [k_dim]
  Tile& tile;

  // Where a token's numbers begin, `offset_bytes` into its slice.
  __device__ const Kv* Token(int page, int token, int64_t offset_bytes,
                             int stride) const {
    const int piece = token / args.slot_tokens;
    return reinterpret_cast<const Kv*>(tile.slices[page][piece] +
                                       offset_bytes) +
           static_cast<int64_t>(token + tile.shifts[page][piece]) * stride;
  }

  // The score of this thread's key, -infinity where it is not read.
  __device__ float Score() const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int k_dim = args.pages.k_dim;
    float score = -INFINITY;
    for (uint32_t rest = tile.tokens[warp]; rest != 0; rest &= rest - 1) {
      const int token = __ffs(rest) - 1;
      const Kv* key = Token(warp, token, 0, k_dim);
      float dot = 0;
      for (int i = lane; i < k_dim; i += 32) {
        dot = __fmaf_rn(q[i], device::ToFloat(key[i]), dot);
      }
      dot = WarpSum(dot);
      if (lane == token) score = dot * args.scale;
    }
    return score;
  }

  // Takes the tile's values into `state`, key after key.
  __device__ void AddValues(State<kSlots>& state) const {
    const int v_dim = args.pages.v_dim;
    for (int page = 0; page < kWarps; ++page) {
      for (uint32_t rest = tile.tokens[page]; rest != 0; rest &= rest - 1) {
        const int token = __ffs(rest) - 1;
        const float weight = tile.weights[page * 32 + token];
        const Kv* value =
            Token(page, token, args.pages.v_offset_bytes, args.v_stride);
        for (int i = 0; i < kSlots; ++i) {
          const int c = static_cast<int>(threadIdx.x) + i * kThreads;
          if (c >= v_dim) break;
          state.values[i] =
              __fmaf_rn(weight, device::ToFloat(value[c]), state.values[i]);
        }
      }
    }
  }

  __device__ void FindPage(int page, unsigned slot) const {
    for (int i = 0; i * args.slot_tokens < 32; ++i) {
      const device::PiecePlace place =
          args.pages.slots.directory == nullptr
              ? device::PiecePlace{args.pages.Slice(request, page, kv_head), i}
              : args.pages.Find(request, page, kv_head, i);
      tile.slices[slot][i] = place.slice;
      tile.shifts[slot][i] = (place.index - i) * args.slot_tokens;
    }
  }

  // Takes a tile of four pages into `state`: thread s < 4 names page s.
  __device__ void TakeIn(PageTokens page, State<kSlots>& state) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < kWarps) {
      tile.tokens[threadIdx.x] = page.tokens;
      if (page.tokens != 0) FindPage(page.page, threadIdx.x);
    }
    __syncthreads();
    const float score = Score();
    const float warp_maximum = WarpMax(score);
    if (lane == 0) tile.maxima[warp] = warp_maximum;
    __syncthreads();
    float maximum = state.maximum;
    for (int i = 0; i < kWarps; ++i) maximum = fmaxf(maximum, tile.maxima[i]);
    const float weight = score == -INFINITY ? 0 : expf(score - maximum);
    const float warp_sum = WarpSum(weight);
    if (lane == 0) tile.sums[warp] = warp_sum;
    tile.weights[threadIdx.x] = weight;
    __syncthreads();
    const float keep =
        state.maximum == -INFINITY ? 0 : expf(state.maximum - maximum);
    state.maximum = maximum;
    state.sum *= keep;
    for (int i = 0; i < kWarps; ++i) state.sum += tile.sums[i];
    for (int i = 0; i < kSlots; ++i) state.values[i] *= keep;
    AddValues(state);
    __syncthreads();  // Or the next tile would be told before this one is read.
  }

  // One state over ascending tiles. A picked page stands where it would stand
  // if all were read.
  __device__ State<kSlots> AttendByTiles() const {
    const int slot = static_cast<int>(threadIdx.x);
    State<kSlots> state;
    if (reading.list == nullptr) {
      for (int unit = reading.first_unit(); unit < reading.end_unit(); ++unit) {
        TakeIn(reading.Page(unit * kWarps + slot), state);
      }
      return state;
    }
    for (int rank = 0; rank < reading.num_picks;) {
      const int tile_index = static_cast<int>(reading.list[2 * rank]) / kWarps;
      PageTokens page = {0, 0};
      for (; rank < reading.num_picks; ++rank) {
        const PageTokens picked = reading.Picked(rank);
        if (picked.page / kWarps != tile_index) break;
        if (picked.page % kWarps == slot) page = picked;
      }
      TakeIn(page, state);
    }
    return state;
  }

  // Units from an empty state, merged by rank into groups, and those in order.
  __device__ State<kSlots> AttendByUnits() const {
    const int slot = static_cast<int>(threadIdx.x);
    const int end_unit = reading.end_unit();
    State<kSlots> state, group;
    for (int unit = reading.first_unit(); unit < end_unit; ++unit) {
      State<kSlots> of_unit;
      TakeIn(reading.Ranked(unit * kWarps + slot), of_unit);
      group.Merge(of_unit);
      if (unit + 1 == end_unit || (unit + 1) % device::kAttendGroupUnits == 0) {
        state.Merge(group);
        group = State<kSlots>();
      }
    }
    return state;
  }
};

// Grid: rows x q heads. A block reads one row with one q head: its warps score
// a page each, lanes along k_dim, then its threads take in values, a dimension
// each. q [rows, q_heads, k_dim], out [rows, q_heads, v_dim]. Bytes: keys x
// (k_dim + v_dim) elements a block; flops: 2 x as many.
template <typename Kv, int kSlots>
__global__ void __launch_bounds__(kThreads, 4)
    AttendRowsKernel(Arguments args) {
  extern __shared__ float q[];  // [k_dim]
  __shared__ Tile tile;
  const int head = static_cast<int>(blockIdx.x) % args.lists.num_heads;
  const int row = args.lists.first_row +
                  static_cast<int>(blockIdx.x) / args.lists.num_heads;
  const bool is_prompt = args.rows.IsPrompt(row);
  if (!(is_prompt ? args.kinds.prompt : args.kinds.generated)) return;
  for (int i = threadIdx.x; i < args.pages.k_dim; i += kThreads) {
    q[i] = args.q.Load(args.q.At(row, head) + i);
  }
  __syncthreads();
  const int list = head * args.lists.NumLists(row) / args.lists.num_heads;
  const HeadRow<Kv, kSlots> reader = {
      .args = args,
      .reading = RowAttention(args.rows, args.lists, row, list),
      .request = args.rows.Request(row),
      .kv_head = head / (args.lists.num_heads / args.pages.num_kv_heads),
      .q = q,
      .tile = tile};
  const State<kSlots> state =
      is_prompt ? reader.AttendByTiles() : reader.AttendByUnits();
  for (int i = 0; i < kSlots; ++i) {
    const int c = static_cast<int>(threadIdx.x) + i * kThreads;
    if (c >= args.pages.v_dim) break;
    args.out.Store(args.out.At(row, head) + c, state.values[i] / state.sum);
  }
  if (args.lse == nullptr || threadIdx.x != 0) return;
  args.lse[row * args.lse_stride + head] = state.maximum + logf(state.sum);
}

RowsOfHeads Heads(const View& view) {
  return {view.data, view.dtype, view.stride[0], view.stride[1]};
}

}  // namespace

void EnqueueAttendRows(CudaQueue& queue, const LayerStep& step,
                       const AttendArgs& args, const LayerCache& cache,
                       RowKinds kinds) {
  const HeadBlockFormat& format = cache.format;
  const Arguments arguments = {
      .rows = DeviceRows(step),
      .lists = DeviceLists(step, args),
      .pages = DevicePages(cache, args.slots),
      .q = Heads(args.q),
      .out = Heads(args.out),
      .lse = args.lse.empty() ? nullptr : args.lse.As<float>(),
      .lse_stride = args.lse.stride[0],
      .v_stride = format.v_in_k ? format.k_dim : format.v_dim,
      .slot_tokens =
          args.slots == nullptr ? format.page_tokens : format.slot_tokens,
      .scale = args.scale,
      .kinds = kinds};
  const auto num_blocks = static_cast<unsigned>(arguments.lists.num_rows *
                                                arguments.lists.num_heads);
  if (num_blocks == 0) return;
  const size_t q_bytes = sizeof(float) * static_cast<size_t>(format.k_dim);
  WithCudaFloat(format.k, [&](auto kv) {
    auto* kernel =
        format.v_dim <= kThreads
            ? AttendRowsKernel<decltype(kv), 1>
            : AttendRowsKernel<decltype(kv), kMaxValueDim / kThreads>;
    kernel<<<num_blocks, kThreads, q_bytes, queue.stream()>>>(arguments);
  });
  queue.KeepLaunch("Attend, a row and head at a time");
}

}  // namespace winnow
