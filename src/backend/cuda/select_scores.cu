#include <algorithm>

#include "backend/cuda/cuda_types.h"
#include "backend/cuda/device/select_tile.cuh"
#include "backend/cuda/select_scores.h"
#include "backend/cuda/select_views.h"
#include "backend/cuda/step_views.h"

namespace winnow {
namespace {

constexpr int kWarps = 8;

// What a launch scores: one level of one selector.
struct ScoreTask {
  device::StepRows rows;
  device::Pages pages;
  device::Selector selector;
  int selector_index;
  int level;
  int first_row;  // of the wave
  const void* q;  // [rows, q_heads, k_dim]
  Dtype q_dtype;
  int64_t q_row_stride, q_head_stride;
  int num_heads;     // q heads a KV head
  int padded_heads;  // up to the heads that are scored at a time
  int k_dim;
  int width;  // of a summary row, in elements
  float scale;
  bool writes_scores;
  bool writes_partials;
  device::ScoreMemory memory;
};

__device__ float LoadQuery(const ScoreTask& task, int row, int head,
                           int channel) {
  const int64_t at =
      row * task.q_row_stride + head * task.q_head_stride + channel;
  switch (task.q_dtype) {
    case Dtype::kBFloat16:
      return device::ToFloat(static_cast<const __nv_bfloat16*>(task.q)[at]);
    case Dtype::kFloat16:
      return device::ToFloat(static_cast<const __half*>(task.q)[at]);
    default:
      return static_cast<const float*>(task.q)[at];
  }
}

// The queries of a KV head's group. A bound is an inner product too:
// sum_c max(q_c min_c, q_c max_c) is that of the negative parts of q with the
// least and of the positive ones with the greatest.
template <typename Shape>
__device__ void LoadQueries(const ScoreTask& task, int row, int kv_head,
                            float* q) {  // f32 [padded heads, width]
  const int num_pieces = task.width / Shape::kElements;
  for (int i = threadIdx.x; i < task.padded_heads * task.width;
       i += blockDim.x) {
    const int head = i / task.width;
    const int element = i % task.width;
    float value = 0;
    if (head < task.num_heads) {
      value = LoadQuery(task, row, kv_head * task.num_heads + head,
                        element % task.k_dim);
      if (task.width > task.k_dim) {
        // A NaN stays one.
        const bool drops = element < task.k_dim ? value > 0 : value < 0;
        if (drops) value = 0;
      }
    }
    q[device::QueryIndex<Shape>(head, element, num_pieces)] = value;
  }
}

// Puts a tile's scores where they are wanted: lane l has slot l.
__device__ void WriteTile(const ScoreTask& task,
                          const float* scores,  // f32 [padded heads, 32]
                          int slot, int num_visible, int kv_head) {
  const int lane = threadIdx.x % 32;
  const int wave_row = blockIdx.z;
  const int j = slot + lane - task.selector.summaries.levels[task.level].lead;
  const bool valid = j >= 0 && j < num_visible;
  const int first_head = kv_head * task.num_heads;
  if (task.writes_scores && task.selector.SumsGroups()) {
    float sum = scores[lane];
    for (int head = 1; head < task.num_heads; ++head) {
      const float score = scores[head * device::kTileSlots + lane];
      sum = task.selector.group != device::Reduction::kMax ? sum + score
            : sum < score                                  ? score
                                                           : sum;
    }
    if (valid) task.memory.Plane(wave_row, kv_head)[j] = sum;
  } else if (task.writes_scores && valid) {
    for (int head = 0; head < task.num_heads; ++head) {
      task.memory.Plane(wave_row, first_head + head)[j] =
          scores[head * device::kTileSlots + lane];
    }
  }
  if (!task.writes_partials) return;
  for (int head = 0; head < task.num_heads; ++head) {
    const float2 part = device::PartOfLse(
        scores[head * device::kTileSlots + lane], valid, task.scale);
    if (lane == 0) {
      task.memory.Partials(wave_row,
                           first_head + head)[slot / device::kTileSlots] = part;
    }
  }
}

// A block has a (row, KV head) and some of its tiles, a warp a tile of 32
// slots: reads each of its summary rows once, for all q heads of the group,
// lanes over channels, and writes the tile's scores, or their sums over the
// group, or what they add to each head's log-sum-exp. Bytes: width x 32 a tile;
// flops: 2 x width x 32 x heads. Grid [tiles, KV heads, rows of the wave].
template <typename Shape>
__global__ void __launch_bounds__(kWarps * 32, 2)
    ScoreKernel(const __grid_constant__ ScoreTask task) {
  extern __shared__ float4 shared[];
  const int row = task.first_row + blockIdx.z;
  const int request = task.rows.Request(row);
  if (task.rows.selector[request] != task.selector_index) return;
  const device::SummaryLevel& level =
      task.selector.summaries.levels[task.level];
  const int context = task.rows.Position(row) + 1;
  const int num_visible = level.NumVisible(context);
  const int begin = level.lead;
  const int end = num_visible + level.lead;
  const int num_tiles = (end + device::kTileSlots - 1) / device::kTileSlots;
  if (num_visible == 0 || static_cast<int>(blockIdx.x) * kWarps >= num_tiles) {
    return;
  }
  if (task.selector.ReadsAll(task.rows, row) ||
      !device::RowBudget(task.selector, context).NeedsScores()) {
    return;
  }
  const int kv_head = blockIdx.y;
  auto* q = reinterpret_cast<float*>(shared);
  LoadQueries<Shape>(task, row, kv_head, q);
  __syncthreads();
  const int warp = threadIdx.x / 32;
  float* scores = q + task.padded_heads * task.width +
                  warp * task.padded_heads * device::kTileSlots;
  const auto at = [&](int slot) -> const std::byte* {
    if (level.kind == device::SummaryKind::kKeys) {
      return task.pages.Slice(request, slot / device::kTileSlots, kv_head) +
             slot % device::kTileSlots * level.row_bytes;
    }
    return task.selector.summaries.Slot(request, kv_head, task.level, slot);
  };
  for (int tile = blockIdx.x * kWarps + warp; tile < num_tiles;
       tile += gridDim.x * kWarps) {
    const int slot = tile * device::kTileSlots;
    device::ScoreTile<Shape>(at, {slot, begin, end},
                             {q, task.num_heads, task.width / Shape::kElements},
                             scores);
    __syncwarp();
    WriteTile(task, scores, slot, num_visible, kv_head);
    __syncwarp();
  }
}

struct ScoreLaunch {
  CudaQueue& queue;
  ScoreTask task;
  int num_kv_heads;
  int num_rows;
  int64_t max_tiles;
};

template <typename Shape>
void Launch(const ScoreLaunch& launch) {
  ScoreTask task = launch.task;
  task.padded_heads =
      (task.num_heads + Shape::kHeads - 1) / Shape::kHeads * Shape::kHeads;
  const size_t shared_bytes =
      sizeof(float) * static_cast<size_t>(task.padded_heads) *
      static_cast<size_t>(task.width + kWarps * device::kTileSlots);
  constexpr size_t kMaxSharedBytes = 227 << 10;
  CHECK(shared_bytes <= kMaxSharedBytes,
        "q heads a KV head={} width={}: queries of {} bytes, limit {}",
        task.num_heads, task.width, shared_bytes, kMaxSharedBytes);
  cudaFuncSetAttribute(ScoreKernel<Shape>,
                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(shared_bytes));
  // Enough blocks to fill the device a few times over; where the context is
  // short, those behind it end at once.
  const int64_t lines = int64_t{launch.num_kv_heads} * launch.num_rows;
  const int64_t wanted = std::max<int64_t>(
      1, launch.queue.device().num_multiprocessors * 16 / lines);
  const int64_t most = (launch.max_tiles + kWarps - 1) / kWarps;
  const dim3 grid(static_cast<unsigned>(std::min(wanted, most)),
                  static_cast<unsigned>(launch.num_kv_heads),
                  static_cast<unsigned>(launch.num_rows));
  ScoreKernel<Shape>
      <<<grid, kWarps * 32, shared_bytes, launch.queue.stream()>>>(task);
  launch.queue.KeepLaunch("Select: scores");
}

template <typename Row, int kElements, int kLanes>
void LaunchByHeads(const ScoreLaunch& launch) {
  if (launch.task.num_heads == 1) {
    Launch<device::TileShape<Row, kElements, kLanes, 1>>(launch);
  } else if (launch.task.num_heads <= 4) {
    Launch<device::TileShape<Row, kElements, kLanes, 4>>(launch);
  } else {
    Launch<device::TileShape<Row, kElements, kLanes, 8>>(launch);
  }
}

// Whether every row of the level starts at a multiple of 16 bytes.
bool RowsAlign(const ScoreTask& task) {
  constexpr int64_t kBytes = 16;
  const device::SummaryLevel& level =
      task.selector.summaries.levels[task.level];
  if (level.row_bytes % kBytes != 0) return false;
  if (level.kind == device::SummaryKind::kKeys) {
    return reinterpret_cast<uintptr_t>(task.pages.strips) % kBytes == 0 &&
           task.pages.extent_stride_bytes % kBytes == 0 &&
           task.pages.slice_bytes % kBytes == 0;
  }
  const device::Summaries& summaries = task.selector.summaries;
  return reinterpret_cast<uintptr_t>(summaries.rows) % kBytes == 0 &&
         summaries.segment_stride_bytes % kBytes == 0 &&
         summaries.head_bytes % kBytes == 0 && level.offset_bytes % kBytes == 0;
}

template <typename Row>
void LaunchByWidth(const ScoreLaunch& launch) {
  constexpr int kElements = 16 / sizeof(Row);
  if (!RowsAlign(launch.task)) {
    return Launch<device::TileShape<Row, 1, 32, 4>>(launch);
  }
  const int num_pieces = launch.task.width / kElements;
  if (num_pieces <= 8) return LaunchByHeads<Row, kElements, 8>(launch);
  if (num_pieces <= 16) return LaunchByHeads<Row, kElements, 16>(launch);
  LaunchByHeads<Row, kElements, 32>(launch);
}

bool IsBound(const SummaryRows& rows) {
  return rows.kind == SummaryRows::Kind::kMinMax ||
         rows.kind == SummaryRows::Kind::kCuboid;
}

}  // namespace

void EnqueueScores(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const ScoredLevel& scored) {
  const auto& [wave, selector, level] = scored;
  const LayerSelector& of = args.selectors[selector];
  const SelectProgram& program = *of.program;
  const int64_t max_slots =
      MaxSlots(program, level, cache.page_table.dim(1) * kPageTokens);
  if (max_slots == 0) return;
  ScoreTask task = {};
  task.rows = DeviceRows(step);
  task.pages = DevicePages(cache);
  task.selector = DeviceSelector(of, cache);
  task.selector_index = static_cast<int>(selector);
  task.level = level;
  task.first_row = wave.first_row;
  task.q = args.q.data;
  task.q_dtype = args.q.dtype;
  task.q_row_stride = args.q.stride[0];
  task.q_head_stride = args.q.stride[1];
  task.num_heads = static_cast<int>(args.q.dim(1)) / cache.num_kv_heads;
  task.k_dim = cache.format.k_dim;
  task.width = task.k_dim * (IsBound(LevelRows(program, level)) ? 2 : 1);
  task.scale = args.scale;
  task.writes_scores = level == 0;
  task.writes_partials = level == 1 || program.map == HeadMap::kSoftmax;
  task.memory = wave.memory;
  const ScoreLaunch launch = {
      .queue = queue,
      .task = task,
      .num_kv_heads = cache.num_kv_heads,
      .num_rows = wave.num_rows,
      .max_tiles = (max_slots + device::kTileSlots - 1) / device::kTileSlots};
  WithCudaFloat(LevelDtype(program, level, cache), [&](auto element) {
    LaunchByWidth<decltype(element)>(launch);
  });
}

}  // namespace winnow
