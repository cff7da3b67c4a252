#include <algorithm>

#include "backend/cuda/cuda_types.h"
#include "backend/cuda/dependent_launch.h"
#include "backend/cuda/device/async_copy.cuh"
#include "backend/cuda/device/dependent_launch.cuh"
#include "backend/cuda/device/select_lanes.cuh"
#include "backend/cuda/device/select_mma.cuh"
#include "backend/cuda/select_reduce.h"
#include "backend/cuda/select_scores.h"
#include "backend/cuda/select_views.h"
#include "backend/cuda/step_views.h"

namespace winnow {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
// As many as run at a time, so that none waits for another to end (with 8, in
// `winnow bench verbs` on an H200, "Select, mean 2048, 131072 tokens x 16" took
// 57.1 us in place of 52.8).
constexpr int kBlocksAMultiprocessor = 4;

// What a launch scores: one selector's levels of one shape.
struct ScoreTask {
  device::StepRows rows;
  device::Pages pages;
  device::Selector selector;
  device::ScoreMemory memory;
  int selector_index;
  int num_blocks[2];  // of each level, in a row of the grid
  int first_row;      // of the wave
  const void* q;      // [rows, q_heads, k_dim]
  Dtype q_dtype;
  int64_t q_row_stride, q_head_stride;
  int num_heads;     // q heads a KV head
  int padded_heads;  // up to the heads that are scored at a time
  int width;         // of a summary row, in elements
  float scale;
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
  for (int head = threadIdx.x / 32; head < task.padded_heads; head += kWarps) {
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

// Puts a tile's scores where they are wanted: lane l has slot l.
__device__ void WriteTile(const ScoreTask& task, const ScorePlace& place,
                          const float* scores,  // f32 [heads, kTileStride]
                          int slot) {
  const device::Selector& selector = task.selector;
  const int lane = threadIdx.x % 32;
  const int j = slot + lane - selector.summaries.levels[place.level].lead;
  const bool valid = j >= 0 && j < place.num_visible;
  const int first_head = place.kv_head * task.num_heads;
  const bool finishes = !selector.NeedsReduce();
  if (place.level == 0 && selector.SumsGroups()) {
    float sum = scores[lane];
    for (int head = 1; head < task.num_heads; ++head) {
      sum = selector.Reduce(sum, scores[head * device::kTileStride + lane]);
    }
    if (finishes) sum = selector.FinishRow(sum, task.num_heads);
    if (valid) task.memory.Plane(place.wave_row, place.kv_head)[j] = sum;
  } else if (place.level == 0 && valid) {
    for (int head = 0; head < task.num_heads; ++head) {
      const float score = scores[head * device::kTileStride + lane];
      task.memory.Plane(place.wave_row, first_head + head)[j] =
          finishes ? selector.FinishRow(score, 1) : score;
    }
  }
  if (place.level != selector.NormalizingLevel()) return;
  for (int head = 0; head < task.num_heads; ++head) {
    const float2 part = device::PartOfLse(
        scores[head * device::kTileStride + lane], valid, task.scale);
    if (lane == 0) {
      task.memory.Partials(place.wave_row,
                           first_head + head)[slot / device::kTileSlots] = part;
    }
  }
}

// The block's tiles: warp w of block b of n has tiles b * kWarps + w, and every
// n * kWarps-th from there on.
struct TileWalk {
  device::LevelRows rows;
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
        slot((block * kWarps + static_cast<int>(threadIdx.x) / 32) *
             device::kTileSlots),
        stride(task.num_blocks[place.level] * kWarps * device::kTileSlots),
        first(slot < end ? rows.Slot(slot) : nullptr) {}

  // Asks for the first tile's rows, as far as they are one run of bytes: into
  // L2, where it does no harm should they be written meanwhile.
  __device__ void FetchFirst() const {
    if (slot >= end || !rows.Adjacent()) return;
    constexpr int kLineBytes = 128;
    const int from = (max(begin, slot) - slot) * rows.of.row_bytes;
    const int to =
        (min(end, slot + device::kTileSlots) - slot) * rows.of.row_bytes;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int at = from + lane * kLineBytes; at < to; at += 32 * kLineBytes) {
      device::FetchIntoL2(first + at);
    }
  }

  template <typename Tile>
  __device__ void Score(const ScoreTask& task, const ScorePlace& place,
                        const void* q, float* scores) {
    for (; slot < end; slot += stride) {
      const device::TileRows tile = {rows, first, slot, begin, end};
      // Found out before it is wanted.
      if (slot + stride < end) first = rows.Slot(slot + stride);
      Tile::Score(tile, {q, task.num_heads, task.width}, scores);
      __syncwarp();
      WriteTile(task, place, scores, slot);
      __syncwarp();
    }
  }
};

// A block has a (row, KV head, level) and some of its tiles, a warp a tile of
// 32 slots: reads each of its summary rows once, for all q heads of the group,
// and writes the tile's scores, or their sums over the group, or what they add
// to each head's log-sum-exp. Bytes: width x 32 a tile; flops: 2 x width x 32 x
// heads. Grid [blocks of both levels, KV heads, rows of the wave].
template <typename Tile>
__global__ void __launch_bounds__(kThreads, kBlocksAMultiprocessor)
    ScoreKernel(const __grid_constant__ ScoreTask task) {
  extern __shared__ uint4 shared[];
  device::LetNextBegin();
  ScorePlace place;
  place.wave_row = blockIdx.z;
  place.row = task.first_row + place.wave_row;
  place.kv_head = blockIdx.y;
  place.level = static_cast<int>(blockIdx.x) < task.num_blocks[0] ? 0 : 1;
  const int block = blockIdx.x - (place.level == 0 ? 0 : task.num_blocks[0]);
  if (task.rows.selector[task.rows.Request(place.row)] != task.selector_index) {
    return device::WaitForPrior();
  }
  const device::SummaryLevel& level =
      task.selector.summaries.levels[place.level];
  const int context = task.rows.Position(place.row) + 1;
  place.num_visible = level.NumVisible(context);
  // Where the context is short, the blocks behind it have nothing to do.
  if (place.num_visible == 0 ||
      block * kWarps * device::kTileSlots >= place.num_visible + level.lead ||
      task.selector.ReadsAll(task.rows, place.row) ||
      !device::RowBudget(task.selector, context).NeedsScores()) {
    return device::WaitForPrior();
  }
  TileWalk walk(task, place, block);
  walk.FetchFirst();
  device::WaitForPrior();
  auto* scores = reinterpret_cast<float*>(shared);
  void* q = scores + kWarps * task.padded_heads * device::kTileStride;
  LoadQueries<Tile>(task, place.row, place.kv_head, q);
  __syncthreads();
  walk.Score<Tile>(task, place, q,
                   scores + static_cast<int>(threadIdx.x) / 32 *
                                task.padded_heads * device::kTileStride);
}

struct ScoreLaunch {
  CudaQueue& queue;
  ScoreTask task;
  int64_t max_tiles[2];
  int num_kv_heads;
  int num_rows;
};

// Blocks of a level for a (row, KV head): enough to fill the device, and so few
// that a warp has several tiles where there are many.
int NumBlocks(const ScoreLaunch& launch, int level) {
  const int64_t lines = int64_t{launch.num_kv_heads} * launch.num_rows;
  const int64_t wanted = int64_t{kBlocksAMultiprocessor} *
                         launch.queue.device().num_multiprocessors / lines;
  const int64_t most = (launch.max_tiles[level] + kWarps - 1) / kWarps;
  return static_cast<int>(std::min(std::max<int64_t>(wanted, 1), most));
}

template <typename Tile>
void Launch(const ScoreLaunch& launch) {
  ScoreTask task = launch.task;
  task.padded_heads =
      (task.num_heads + Tile::kHeads - 1) / Tile::kHeads * Tile::kHeads;
  for (int level = 0; level < 2; ++level) {
    task.num_blocks[level] = NumBlocks(launch, level);
  }
  const size_t shared_bytes =
      sizeof(float) * static_cast<size_t>(kWarps * task.padded_heads *
                                          device::kTileStride) +
      Tile::QueryBytes(task.padded_heads, task.width);
  constexpr size_t kMaxSharedBytes = 227 << 10;
  CHECK(shared_bytes <= kMaxSharedBytes,
        "q heads a KV head={} width={}: queries of {} bytes, limit {}",
        task.num_heads, task.width, shared_bytes, kMaxSharedBytes);
  launch.queue.Keep(
      cudaFuncSetAttribute(ScoreKernel<Tile>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes)),
      "Select: shared memory for scores");
  const dim3 grid(
      static_cast<unsigned>(task.num_blocks[0] + task.num_blocks[1]),
      static_cast<unsigned>(launch.num_kv_heads),
      static_cast<unsigned>(launch.num_rows));
  LaunchDependent(launch.queue, "Select: scores", ScoreKernel<Tile>,
                  {.blocks = grid,
                   .num_threads = kThreads,
                   .shared_bytes = static_cast<int>(shared_bytes)},
                  task);
}

template <typename Row, int kElements, int kLanes>
void LaunchByHeads(const ScoreLaunch& launch) {
  if (launch.task.num_heads == 1) {
    Launch<device::LaneTile<Row, kElements, kLanes, 1>>(launch);
  } else if (launch.task.num_heads <= 4) {
    Launch<device::LaneTile<Row, kElements, kLanes, 4>>(launch);
  } else {
    Launch<device::LaneTile<Row, kElements, kLanes, 8>>(launch);
  }
}

// Whether every row of the level starts at a multiple of 16 bytes.
bool RowsAlign(const ScoreTask& task, int level_index) {
  constexpr int64_t kBytes = 16;
  const device::Summaries& summaries = task.selector.summaries;
  const device::SummaryLevel& level = summaries.levels[level_index];
  if (level.row_bytes % kBytes != 0) return false;
  if (level.kind == device::SummaryKind::kKeys) {
    return reinterpret_cast<uintptr_t>(task.pages.strips) % kBytes == 0 &&
           task.pages.extent_stride_bytes % kBytes == 0 &&
           task.pages.slice_bytes % kBytes == 0;
  }
  return reinterpret_cast<uintptr_t>(summaries.rows) % kBytes == 0 &&
         summaries.segment_stride_bytes % kBytes == 0 &&
         summaries.head_bytes % kBytes == 0 && level.offset_bytes % kBytes == 0;
}

// Tensor cores take rows and queries of one 16-bit type; else, and for widths
// that they do not divide, lanes do.
template <typename Row>
void LaunchByShape(const ScoreLaunch& launch, Dtype row_dtype) {
  constexpr int kElements = 16 / sizeof(Row);
  const ScoreTask& task = launch.task;
  const int level = launch.max_tiles[0] > 0 ? 0 : 1;
  if (!RowsAlign(task, level)) {
    return Launch<device::LaneTile<Row, 1, 32, 4>>(launch);
  }
  if constexpr (sizeof(Row) == 2) {
    if (task.q_dtype == row_dtype && task.width % 32 == 0) {
      if (task.num_heads <= 8) return Launch<device::MmaTile<Row, 1>>(launch);
      return Launch<device::MmaTile<Row, 2>>(launch);
    }
  }
  const int num_pieces = task.width / kElements;
  if (num_pieces <= 8) return LaunchByHeads<Row, kElements, 8>(launch);
  if (num_pieces <= 16) return LaunchByHeads<Row, kElements, 16>(launch);
  LaunchByHeads<Row, kElements, 32>(launch);
}

ScoreTask MakeTask(const LayerStep& step, const SelectArgs& args,
                   const LayerCache& cache, const SelectWave& wave,
                   size_t selector) {
  ScoreTask task = {};
  task.rows = DeviceRows(step);
  task.pages = DevicePages(cache);
  task.selector = DeviceSelector(args.selectors[selector], cache);
  task.selector_index = static_cast<int>(selector);
  task.first_row = wave.first_row;
  task.q = args.q.data;
  task.q_dtype = args.q.dtype;
  task.q_row_stride = args.q.stride[0];
  task.q_head_stride = args.q.stride[1];
  task.num_heads = static_cast<int>(args.q.dim(1)) / cache.num_kv_heads;
  task.scale = args.scale;
  task.memory = wave.memory;
  return task;
}

// A row's numbers.
int Width(const SummaryRows& rows, int k_dim) {
  const bool is_bound = rows.kind == SummaryRows::Kind::kMinMax ||
                        rows.kind == SummaryRows::Kind::kCuboid;
  return is_bound ? 2 * k_dim : k_dim;
}

// Whether one launch can score both levels.
bool OfOneShape(const ScoreTask& task, const SelectProgram& program,
                const LayerCache& cache) {
  const int k_dim = cache.format.k_dim;
  return LevelDtype(program, 0, cache) == LevelDtype(program, 1, cache) &&
         Width(program.rows, k_dim) == Width(program.normalizer, k_dim) &&
         RowsAlign(task, 0) == RowsAlign(task, 1);
}

// Scores the levels that have tiles. REQUIRES: they are of one shape.
void ScoreLevels(ScoreLaunch& launch, const SelectProgram& program,
                 const LayerCache& cache) {
  if (launch.max_tiles[0] + launch.max_tiles[1] == 0) return;
  const int level = launch.max_tiles[0] > 0 ? 0 : 1;
  launch.task.width = Width(LevelRows(program, level), cache.format.k_dim);
  const Dtype dtype = LevelDtype(program, level, cache);
  WithCudaFloat(dtype, [&](auto element) {
    LaunchByShape<decltype(element)>(launch, dtype);
  });
}

}  // namespace

void EnqueueScores(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave, size_t selector) {
  const SelectProgram& program = *args.selectors[selector].program;
  ScoreLaunch launch = {.queue = queue,
                        .task = MakeTask(step, args, cache, wave, selector),
                        .max_tiles = {},
                        .num_kv_heads = cache.num_kv_heads,
                        .num_rows = wave.num_rows};
  const auto max_tiles = [&](int level) {
    const int64_t max_slots =
        MaxSlots(program, level, cache.page_table.dim(1) * kPageTokens);
    return (max_slots + device::kTileSlots - 1) / device::kTileSlots;
  };
  launch.max_tiles[0] = max_tiles(0);
  if (program.map == HeadMap::kExpMinusLse) {
    if (!OfOneShape(launch.task, program, cache)) {
      ScoreLevels(launch, program, cache);
      launch.max_tiles[0] = 0;
    }
    launch.max_tiles[1] = max_tiles(1);
  }
  ScoreLevels(launch, program, cache);
  if (launch.task.selector.NeedsReduce()) {
    EnqueueReduce(queue, step, args, cache, wave, selector);
  }
}

}  // namespace winnow
