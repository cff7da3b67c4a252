#include <algorithm>

#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/select/summary_keys.cuh"
#include "backend/cuda/device/select/summary_rows.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/fix_choices.h"
#include "backend/cuda/select/gate_keys.h"
#include "backend/cuda/select/select_views.h"
#include "backend/cuda/select/summarize.h"

namespace winnow {
namespace {

constexpr int kThreads = 256;
// The fewest and the most blocks a request and KV head.
constexpr int64_t kDecodeBlocks = 4;
constexpr int64_t kPromptBlocks = 64;

// Levels of one selector whose rows are of one type.
struct CloseTask {
  device::StepRows rows;
  device::Pages pages;
  device::Summaries summaries;
  int selector;
  int first_level, end_level;
  const int32_t* first_token;  // [requests]
};

// What a block keeps of a row's channels, in shared memory.
struct RowMemory {
  float* low;      // f32 [slices, k_dim]: sums, or the least
  float* high;     // f32 [slices, k_dim]: the greatest
  float* bounds;   // f32 [2, k_dim]: least and greatest of all slices
  float* numbers;  // f32 [2, k_dim]: of a row that is rounded as a whole
};

// Writes a row's numbers as they come, each rounded once.
template <typename Row>
struct RowWriter {
  Row* row;
  __device__ RowWriter(std::byte* to, const RowMemory&)
      : row(reinterpret_cast<Row*>(to)) {}
  __device__ void Write(int c, float value) const {
    row[c] = device::FromFloat<Row>(value);
  }
  __device__ void Finish(int, bool) const {}
};

// The greatest of all threads' values. REQUIRES: __syncthreads() before the
// next call.
__device__ uint32_t BlockMax(uint32_t value) {
  __shared__ uint32_t of_warps[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  uint32_t greatest = 0;
  for (const uint32_t of_warp : of_warps) greatest = max(greatest, of_warp);
  return greatest;
}

// Of float8, whose scale is known when all numbers are: bounds are rounded
// outward.
template <>
struct RowWriter<device::Float8> {
  std::byte* row;
  float* numbers;
  __device__ RowWriter(std::byte* to, const RowMemory& memory)
      : row(to), numbers(memory.numbers) {}
  __device__ void Write(int c, float value) const { numbers[c] = value; }
  // REQUIRES: all threads have synchronized since the last Write.
  __device__ void Finish(int width, bool are_bounds) const {
    uint32_t greatest = 0;
    for (int c = threadIdx.x; c < width; c += kThreads) {
      greatest = max(greatest, __float_as_uint(fabsf(numbers[c])));
    }
    const float scale = device::Float8Scale(BlockMax(greatest));
    auto* to = reinterpret_cast<device::Float8*>(row);
    for (int c = threadIdx.x; c < width; c += kThreads) {
      using Rounding = device::Float8Rounding;
      const Rounding rounding = !are_bounds     ? Rounding::kNearest
                                : c < width / 2 ? Rounding::kBelow
                                                : Rounding::kAbove;
      // Of a row whose scale is NaN the numbers say nothing.
      to[c] = isnan(scale)
                  ? device::Float8{}
                  : device::RoundToFloat8(numbers[c] / scale, rounding);
    }
    if (threadIdx.x == 0) {
      *reinterpret_cast<float*>(row + device::Float8ScaleOffset(width)) = scale;
    }
    __syncthreads();
  }
};

// The slices' sums of f(number, channel), in the order of tokens.
template <typename Keys, typename F>
__device__ void SumSlices(const Keys& keys, int k_dim, float* low, F&& f) {
  constexpr int kElements = sizeof(typename Keys::Floats) / sizeof(float);
  keys.ForEach([&](int piece, int begin, int end, int slice) {
    typename Keys::Floats sum = {};
    keys.ForEachKey(piece, begin, end, [&](const float* channels) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        sum.values[i] += f(channels[i], piece * kElements + i);
      }
    });
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      low[slice * k_dim + piece * kElements + i] = sum.values[i];
    }
  });
}

// The slices' least and greatest.
template <typename Keys>
__device__ void BoundSlices(const Keys& keys, int k_dim,
                            const RowMemory& memory) {
  constexpr int kElements = sizeof(typename Keys::Floats) / sizeof(float);
  keys.ForEach([&](int piece, int begin, int end, int slice) {
    typename Keys::Floats least, greatest;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      least.values[i] = INFINITY;
      greatest.values[i] = -INFINITY;
    }
    keys.ForEachKey(piece, begin, end, [&](const float* channels) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        least.values[i] = fminf(least.values[i], channels[i]);
        greatest.values[i] = fmaxf(greatest.values[i], channels[i]);
      }
    });
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      memory.low[slice * k_dim + piece * kElements + i] = least.values[i];
      memory.high[slice * k_dim + piece * kElements + i] = greatest.values[i];
    }
  });
}

// Joins the slices, a thread a channel: f(channel, sum).
template <typename F>
__device__ void JoinSums(const float* low, int num_slices, int k_dim, F&& f) {
  __syncthreads();
  for (int c = threadIdx.x; c < k_dim; c += kThreads) {
    float sum = low[c];
    for (int slice = 1; slice < num_slices; ++slice) {
      sum += low[slice * k_dim + c];
    }
    f(c, sum);
  }
  __syncthreads();
}

__device__ void JoinBounds(const RowMemory& memory, int num_slices, int k_dim) {
  __syncthreads();
  for (int c = threadIdx.x; c < k_dim; c += kThreads) {
    float least = memory.low[c], greatest = memory.high[c];
    for (int slice = 1; slice < num_slices; ++slice) {
      least = fminf(least, memory.low[slice * k_dim + c]);
      greatest = fmaxf(greatest, memory.high[slice * k_dim + c]);
    }
    memory.bounds[c] = least;
    memory.bounds[k_dim + c] = greatest;
  }
  __syncthreads();
}

// One row from its keys: float32 sums, rounded once.
template <typename Row, typename Keys>
__device__ void CloseRow(const Keys& keys, device::SummaryKind kind, int k_dim,
                         const RowMemory& memory,
                         const RowWriter<Row>& row) {  // [k_dim] or [2, k_dim]
  const auto count = static_cast<float>(keys.num_tokens);
  if (kind == device::SummaryKind::kMean) {
    SumSlices(keys, k_dim, memory.low, [](float x, int) { return x; });
    JoinSums(memory.low, keys.num_slices, k_dim,
             [&](int c, float sum) { row.Write(c, sum / count); });
    return row.Finish(k_dim, false);
  }
  BoundSlices(keys, k_dim, memory);
  JoinBounds(memory, keys.num_slices, k_dim);
  if (kind == device::SummaryKind::kMinMax) {
    for (int i = threadIdx.x; i < 2 * k_dim; i += kThreads) {
      row.Write(i, memory.bounds[i]);
    }
    __syncthreads();
    return row.Finish(2 * k_dim, true);
  }
  // The box around the middle whose half width is the keys' mean distance.
  const auto centre = [&](int c) {
    return (memory.bounds[c] + memory.bounds[k_dim + c]) * 0.5f;
  };
  SumSlices(keys, k_dim, memory.low,
            [&](float x, int c) { return fabsf(centre(c) - x); });
  JoinSums(memory.low, keys.num_slices, k_dim, [&](int c, float sum) {
    row.Write(c, centre(c) - sum / count);
    row.Write(k_dim + c, centre(c) + sum / count);
  });
  row.Finish(2 * k_dim, false);
}

// Rows of one level that a request's new tokens complete: [begin, end).
struct ClosedRows {
  int begin = 0, end = 0;
};

__device__ ClosedRows RowsToClose(const CloseTask& task, int request,
                                  int level) {
  if (task.rows.selector[request] != task.selector) return {};
  const device::SummaryLevel& of = task.summaries.levels[level];
  return {of.NumVisible(task.first_token[request]),
          of.NumVisible(task.rows.first_position[request] +
                        task.rows.num_tokens[request])};
}

// The rows of one level that a block closes: every gridDim.x-th.
template <typename Kv, typename Row, int kElements>
__device__ void CloseLevel(const CloseTask& task, int request, int head,
                           int level_index, const ClosedRows& rows,
                           float* shared) {
  const device::SummaryLevel& level = task.summaries.levels[level_index];
  const int k_dim = task.pages.k_dim;
  for (int j = rows.begin + blockIdx.x; j < rows.end; j += gridDim.x) {
    const device::KeySlices<Kv, kElements> keys(task.pages, request, head,
                                                j * level.stride, level.tokens);
    RowMemory memory;
    memory.low = shared;
    memory.high = memory.low + keys.num_slices * k_dim;
    memory.bounds = memory.high + keys.num_slices * k_dim;
    memory.numbers = memory.bounds + 2 * k_dim;
    const RowWriter<Row> row(
        task.summaries.Slot(request, head, level_index, j + level.lead),
        memory);
    CloseRow(keys, level.kind, k_dim, memory, row);
  }
}

// A block has some of the rows of a request and KV head whose last token is
// new: reads a row's keys once (twice for a box), threads over slices of tokens
// and pieces of channels, and writes it. Most steps of decode close none.
// Bytes: tokens x k_dim a row; flops: one or two a number.
// Grid [blocks, KV heads, requests].
template <typename Kv, typename Row, int kElements>
__global__ void __launch_bounds__(kThreads, 2)
    CloseKernel(const __grid_constant__ CloseTask task) {
  extern __shared__ float shared[];
  device::LetNextBegin();
  const int request = blockIdx.z;
  ClosedRows rows[2];
#pragma unroll
  for (int level = 0; level < 2; ++level) {
    if (level < task.first_level || level >= task.end_level) continue;
    rows[level] = RowsToClose(task, request, level);
  }
  device::WaitForPrior();
#pragma unroll
  for (int level = 0; level < 2; ++level) {
    CloseLevel<Kv, Row, kElements>(task, request, blockIdx.y, level,
                                   rows[level], shared);
  }
}

// Whether every key starts at a multiple of 16 bytes.
bool KeysAlign(const device::Pages& pages, Dtype dtype) {
  constexpr int64_t kBytes = 16;
  return int64_t{pages.k_dim} * DtypeBytes(dtype) % kBytes == 0 &&
         reinterpret_cast<uintptr_t>(pages.layer_blocks) % kBytes == 0 &&
         pages.kv_block_stride_bytes % kBytes == 0 &&
         pages.head_block_bytes % kBytes == 0;
}

template <typename Kv, typename Row, int kElements>
void Launch(CudaQueue& queue, const CloseTask& task, const dim3& grid) {
  const int k_dim = task.pages.k_dim;
  const int most_slices = std::max(1, kThreads / (k_dim / kElements));
  const size_t shared_bytes = sizeof(float) * static_cast<size_t>(k_dim) *
                              static_cast<size_t>(2 * most_slices + 4);
  CHECK(shared_bytes <= 48 << 10, "k_dim={}: {} bytes of shared memory", k_dim,
        shared_bytes);
  LaunchDependent(queue, "Summarize", CloseKernel<Kv, Row, kElements>,
                  {.blocks = grid,
                   .num_threads = kThreads,
                   .shared_bytes = static_cast<int>(shared_bytes)},
                  task);
}

void EnqueueLevels(CudaQueue& queue, const CloseTask& task, const dim3& grid,
                   Dtype kv, Dtype row) {
  WithCudaFloat(kv, [&](auto kv_element) {
    WithCudaRow(row, [&](auto row_element) {
      using Kv = decltype(kv_element);
      using Row = decltype(row_element);
      if (KeysAlign(task.pages, kv)) {
        Launch<Kv, Row, 16 / sizeof(Kv)>(queue, task, grid);
      } else {
        Launch<Kv, Row, 1>(queue, task, grid);
      }
    });
  });
}

bool HasRows(const SummaryRows& rows) {
  return rows.kind != SummaryRows::Kind::kNone &&
         rows.kind != SummaryRows::Kind::kKeys &&
         rows.kind != SummaryRows::Kind::kGate &&
         rows.kind != SummaryRows::Kind::kClusters;
}

// Blocks a request and KV head: by the rows that a step's tokens may close.
// Where a sequence is taken on late, they go around more often.
unsigned NumBlocks(const LayerStep& step, const SelectProgram& program) {
  int64_t num_rows = 0;
  for (int level = 0; level < 2; ++level) {
    const SummaryRows& rows = LevelRows(program, level);
    if (HasRows(rows)) num_rows += step.num_rows / rows.stride + 1;
  }
  return static_cast<unsigned>(
      std::clamp(num_rows, kDecodeBlocks, kPromptBlocks));
}

}  // namespace

void EnqueueSummarize(CudaQueue& queue, const LayerStep& step,
                      const SummarizeArgs& args, const LayerCache& cache) {
  if (step.num_requests == 0 || step.selector.empty()) return;
  CloseTask task = {};
  task.rows = DeviceRows(step);
  task.pages = DevicePages(cache);
  task.first_token = args.first_token.As<int32_t>();
  for (size_t i = 0; i < args.selectors.size(); ++i) {
    const LayerSelector& selector = args.selectors[i];
    if (selector.program == nullptr) continue;
    const SelectProgram& program = *selector.program;
    task.selector = static_cast<int>(i);
    task.summaries = DeviceSummaries(program, selector.summaries, cache);
    const dim3 grid(NumBlocks(step, program),
                    static_cast<unsigned>(cache.num_kv_heads),
                    static_cast<unsigned>(step.num_requests));
    const bool at_once = HasRows(program.rows) && HasRows(program.normalizer) &&
                         program.rows.dtype == program.normalizer.dtype;
    for (int level = 0; level < 2; level = task.end_level) {
      task.first_level = level;
      task.end_level = at_once ? 2 : level + 1;
      const SummaryRows& rows = LevelRows(program, level);
      if (!HasRows(rows)) continue;
      EnqueueLevels(queue, task, grid, cache.format.k, rows.dtype);
    }
  }
  EnqueueGateKeys(queue, step, args, cache);
  EnqueueFixedChoices(queue, step, args, cache);
}

}  // namespace winnow
