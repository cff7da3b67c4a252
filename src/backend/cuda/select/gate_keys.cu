#include <algorithm>

#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/gate_rows.cuh"
#include "backend/cuda/device/select/summary_rows.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/gate_keys.h"
#include "backend/cuda/select/gate_queries.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

using device::kGateRows;
using device::kGateThreads;

// The most blocks a request and KV head.
constexpr int64_t kMaxBlocks = 64;
// What is pooled of a channel: its greatest, its least, its mean.
constexpr int kPools = 3;

struct GateKeyTask {
  device::StepRows rows;
  device::Pages pages;
  device::Summaries summaries;
  int selector;
  const int32_t* first_token;  // [requests]
  device::GateSide gate;
  const float* frequencies;  // [requests, half_dim]
  int64_t frequency_stride;
  const float* rope_scale;  // [requests]
  int half_dim;
};

// One request and KV head, and how its keys are turned.
struct GatePlace {
  int request, kv_head;
  const float* frequencies;  // [half_dim]
  float rope_scale;
};

// Keys as they were before RoPE, in turns of a thread's own: a pair of channels
// that are turned together, or one that is not.
template <typename Kv>
struct UnturnedKeys {
  const GateKeyTask& task;
  const GatePlace& place;

  __device__ int num_turns() const { return task.pages.k_dim - task.half_dim; }
  __device__ bool IsPair(int turn) const { return turn < task.half_dim; }
  // The turn's channels; the second of a pair only.
  __device__ int First(int turn) const {
    return IsPair(turn) ? turn : turn + task.half_dim;
  }
  __device__ int Second(int turn) const { return turn + task.half_dim; }

  // A token's numbers of the turn.
  __device__ float2 At(int token, int turn) const {
    constexpr int kTokensAPage = 32;
    const auto* key = reinterpret_cast<const Kv*>(task.pages.Slice(
                          place.request, token / kTokensAPage, place.kv_head)) +
                      token % kTokensAPage * task.pages.k_dim;
    const float first = device::ToFloat(key[First(turn)]);
    if (!IsPair(turn)) return {first, 0.0f};
    const float second = device::ToFloat(key[Second(turn)]);
    const float2 by =
        device::GateAngle(token, place.frequencies[turn], place.rope_scale);
    // Turning multiplied by the scale once, and does so again here.
    const float square = place.rope_scale * place.rope_scale;
    return {(first * by.x + second * by.y) / square,
            (second * by.x - first * by.y) / square};
  }
};

// What keys of a slice of tokens come to, channel by channel.
struct PooledNumber {
  float greatest = -INFINITY, least = INFINITY, sum = 0;

  __device__ void Take(float x) {
    greatest = greatest < x ? x : greatest;
    least = x < least ? x : least;
    sum += x;
  }
  __device__ void Store(float* to, int c, int k_dim) const {
    to[c] = greatest;
    to[k_dim + c] = least;
    to[2 * k_dim + c] = sum;
  }
};

// Pools the keys of tokens [first, first + count), by a block: threads over
// slices of tokens and turns. Tokens ascend in a slice, then slices do.
template <typename Kv>
__device__ void PoolKeys(const UnturnedKeys<Kv>& keys, int first, int count,
                         float* slices,    // f32 [slices, kPools, k_dim]
                         float* pooled) {  // f32 [kPools, k_dim]
  const int k_dim = keys.task.pages.k_dim;
  const int num_turns = keys.num_turns();
  const int num_slices = device::NumSlices(num_turns);
  const int each = (count + num_slices - 1) / num_slices;
  for (int i = threadIdx.x; i < num_slices * num_turns; i += kGateThreads) {
    const int slice = i / num_turns, turn = i % num_turns;
    const int end = min((slice + 1) * each, count);
    PooledNumber low, high;
    for (int t = slice * each; t < end; ++t) {
      const float2 numbers = keys.At(first + t, turn);
      low.Take(numbers.x);
      high.Take(numbers.y);
    }
    float* to = slices + slice * kPools * k_dim;
    low.Store(to, keys.First(turn), k_dim);
    if (keys.IsPair(turn)) high.Store(to, keys.Second(turn), k_dim);
  }
  __syncthreads();
  for (int c = threadIdx.x; c < k_dim; c += kGateThreads) {
    PooledNumber all;
    for (int slice = 0; slice < num_slices; ++slice) {
      const float* from = slices + slice * kPools * k_dim + c;
      all.greatest = fmaxf(all.greatest, from[0]);
      all.least = fminf(all.least, from[k_dim]);
      all.sum += from[2 * k_dim];
    }
    all.sum /= static_cast<float>(count);
    all.Store(pooled, c, k_dim);
  }
  __syncthreads();
}

// A block has some of the rows of a request and KV head whose last token is
// new, kGateRows at a time: pools each row's keys and takes the gate's weights
// to them. Most steps of decode close none. Grid [blocks, KV heads, requests].
template <typename Kv, typename Row>
__global__ void __launch_bounds__(kGateThreads, 2)
    GateKeyKernel(const __grid_constant__ GateKeyTask task) {
  extern __shared__ float shared[];
  device::LetNextBegin();
  const int request = static_cast<int>(blockIdx.z);
  const device::SummaryLevel& level = task.summaries.levels[0];
  int begin = 0, end = 0;
  if (task.rows.selector[request] == task.selector) {
    begin = level.NumVisible(task.first_token[request]);
    end = level.NumVisible(task.rows.first_position[request] +
                           task.rows.num_tokens[request]);
  }
  device::WaitForPrior();
  const int k_dim = task.pages.k_dim;
  const int head = static_cast<int>(blockIdx.y);
  const int num_inputs = kPools * k_dim;
  float* numbers = shared;                           // [kGateRows, num_inputs]
  float* slices = numbers + kGateRows * num_inputs;  // of whoever has them
  GatePlace place = {};
  place.request = request;
  place.kv_head = head;
  if (begin < end) {
    place.frequencies = task.frequencies + request * task.frequency_stride;
    place.rope_scale = task.rope_scale[request];
  }
  const UnturnedKeys<Kv> keys = {task, place};
  for (int first = begin + static_cast<int>(blockIdx.x) * kGateRows;
       first < end; first += static_cast<int>(gridDim.x) * kGateRows) {
    const int num_rows = min(kGateRows, end - first);
    // What no row has is not looked at, but multiplied.
    for (int i = threadIdx.x; i < (kGateRows - num_rows) * num_inputs;
         i += kGateThreads) {
      numbers[num_rows * num_inputs + i] = 0;
    }
    for (int r = 0; r < num_rows; ++r) {
      PoolKeys(keys, (first + r) * level.stride, level.tokens, slices,
               numbers + r * num_inputs);
    }
    device::ProjectRows(task.gate, head, 0, num_inputs, numbers, slices);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp < num_rows) {
      const int j = first + warp;
      auto* row = reinterpret_cast<Row*>(
          task.summaries.Slot(request, head, 0, j + level.lead));
      device::FinishGateRow(
          task.gate, slices + warp * k_dim, task.half_dim,
          [&](int i) {
            return device::GateAngle(j * level.stride, place.frequencies[i],
                                     place.rope_scale);
          },
          [&](int c, float x) { row[c] = device::FromFloat<Row>(x); });
    }
    __syncthreads();  // Or the next rows would overwrite what is still read.
  }
}

template <typename Kv, typename Row>
void Launch(CudaQueue& queue, const GateKeyTask& task, const dim3& grid) {
  const int k_dim = task.pages.k_dim;
  const int of_slices =
      std::max(device::NumSlices(k_dim) * kGateRows,
               device::NumSlices(k_dim - task.half_dim) * kPools);
  const size_t shared_bytes =
      sizeof(float) *
      static_cast<size_t>(k_dim * (kGateRows * kPools + of_slices));
  CHECK(shared_bytes <= 48 << 10, "k_dim={}: {} bytes of shared memory", k_dim,
        shared_bytes);
  LaunchDependent(queue, "Summarize: gates", GateKeyKernel<Kv, Row>,
                  {.blocks = grid,
                   .num_threads = kGateThreads,
                   .shared_bytes = static_cast<int>(shared_bytes)},
                  task);
}

}  // namespace

void EnqueueGateKeys(CudaQueue& queue, const LayerStep& step,
                     const SummarizeArgs& args, const LayerCache& cache) {
  for (size_t i = 0; i < args.selectors.size(); ++i) {
    const LayerSelector& selector = args.selectors[i];
    if (!HasGate(selector)) continue;
    const int64_t k_dim = cache.format.k_dim;
    const View& weights = selector.gate.k;
    CHECK(weights.rank == 3 && weights.dim(0) == cache.num_kv_heads &&
              weights.dim(1) == kPools * k_dim && weights.dim(2) == k_dim &&
              !args.inverse_frequencies.empty() && !args.rope_scale.empty(),
          "gate {} kv_heads={} k_dim={} inverse_frequencies {}",
          ToString(weights), cache.num_kv_heads, k_dim,
          ToString(args.inverse_frequencies));
    GateKeyTask task = {};
    task.rows = DeviceRows(step);
    task.pages = DevicePages(cache);
    task.summaries =
        DeviceSummaries(*selector.program, selector.summaries, cache);
    task.selector = static_cast<int>(i);
    task.first_token = args.first_token.As<int32_t>();
    task.gate = DeviceGate(weights, selector.gate.k_norm);
    task.frequencies = args.inverse_frequencies.As<float>();
    task.frequency_stride = args.inverse_frequencies.stride[0];
    task.rope_scale = args.rope_scale.As<float>();
    task.half_dim = static_cast<int>(args.inverse_frequencies.dim(1));
    const SummaryRows& rows = selector.program->rows;
    const int64_t num_rows = step.num_rows / rows.stride + 1;
    const dim3 grid(static_cast<unsigned>(std::min(
                        (num_rows + kGateRows - 1) / kGateRows, kMaxBlocks)),
                    static_cast<unsigned>(cache.num_kv_heads),
                    static_cast<unsigned>(step.num_requests));
    WithCudaFloat(cache.format.k, [&](auto kv) {
      WithCudaFloat(rows.dtype, [&](auto row) {
        Launch<decltype(kv), decltype(row)>(queue, task, grid);
      });
    });
  }
}

}  // namespace winnow
