#include <algorithm>

#include "backend/cuda/device/runtime/dependent_launch.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/device/select/score_tiles.cuh"
#include "backend/cuda/device/select/select_lanes.cuh"
#include "backend/cuda/device/select/select_mma.cuh"
#include "backend/cuda/runtime/cuda_types.h"
#include "backend/cuda/runtime/dependent_launch.h"
#include "backend/cuda/runtime/step_views.h"
#include "backend/cuda/select/gate_queries.h"
#include "backend/cuda/select/select_reduce.h"
#include "backend/cuda/select/select_scores.h"
#include "backend/cuda/select/select_views.h"

namespace winnow {
namespace {

constexpr int kThreads = device::kScoreWarps * 32;
// At most. As many are launched as run at a time, so that none waits for
// another to end (with twice as many, in `winnow bench ops` on an H200,
// "Select, mean 2048, 131072 tokens x 16" took 57.1 us in place of 52.8).
constexpr int kBlocksAMultiprocessor = 4;
// What a block may ask for, and what a multiprocessor has, of which each block
// takes some more.
constexpr int64_t kMaxSharedBytes = 227 << 10;
constexpr int64_t kSharedBytesAMultiprocessor = 228 << 10;
constexpr int64_t kSharedBytesBeside = 1 << 10;

// Of the slots of a level, how many first ones have rows that were there before
// the step.
__device__ int NumSlotsBefore(const device::ScoreTask& task,
                              const device::SummaryLevel& level, int request) {
  if (task.first_token == nullptr) return 0;
  const int num_rows = level.NumVisible(task.first_token[request]);
  return num_rows == 0 ? 0 : num_rows + level.lead;
}

// A block has a (row, KV head, level) and some of its tiles, a warp a tile of
// 32 slots: reads each of its summary rows once, for all q heads of the group,
// and writes the tile's scores, or their sums over the group, or what they add
// to each head's log-sum-exp. kStaged: rows come by way of a TileRing. Bytes:
// width x 32 a tile; flops: 2 x width x 32 x heads. Grid [blocks of both
// levels, KV heads, rows of the wave].
template <typename Tile, bool kStaged>
__global__ void __launch_bounds__(kThreads, kBlocksAMultiprocessor)
    ScoreKernel(const __grid_constant__ device::ScoreTask task) {
  extern __shared__ uint4 shared[];
  device::LetNextBegin();
  device::ScorePlace place;
  place.wave_row = blockIdx.z;
  place.row = task.first_row + place.wave_row;
  place.kv_head = blockIdx.y;
  place.level = static_cast<int>(blockIdx.x) < task.num_blocks[0] ? 0 : 1;
  const int block = blockIdx.x - (place.level == 0 ? 0 : task.num_blocks[0]);
  const device::RowPlace row = task.rows.Place(place.row);
  if (task.rows.selector[row.request] != task.selector_index) {
    return device::WaitForPrior();
  }
  const device::SummaryLevel& level =
      task.selector.summaries.levels[place.level];
  const device::ScoreNeed need(task.selector, task.rows, place.row);
  place.num_visible = level.NumVisible(need.scored_tokens);
  // Where the context is short, the blocks behind it have nothing to do.
  if (place.num_visible == 0 ||
      block * device::kScoreWarps * device::kTileSlots >=
          place.num_visible + level.lead ||
      task.selector.ReadsAll(task.rows, row) || !need.decides) {
    return device::WaitForPrior();
  }
  device::TileWalk walk(task, place, block);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int score_floats = task.padded_heads * device::kTileStride;
  auto* const all_scores = reinterpret_cast<float*>(shared);
  float* const scores = all_scores + warp * score_floats;
  void* const q = all_scores + device::kScoreWarps * score_floats;
  if constexpr (kStaged) {
    std::byte* const rings = static_cast<std::byte*>(q) +
                             Tile::QueryBytes(task.padded_heads, task.width);
    const int ring_bytes =
        device::TileRing::kPlaces * device::StagedRows::kRows * level.row_bytes;
    device::TileRing ring = walk.Ring(rings + warp * ring_bytes);
    if (!ring.Begin(NumSlotsBefore(task, level, row.request))) {
      walk.LoadFirst();
    }
    device::WaitForPrior();
    ring.Begin(place.num_visible + level.lead);
    device::LoadQueries<Tile>(task, place.row, place.kv_head, q);
    __syncthreads();
    walk.ScoreStaged<Tile>(task, place, ring, q, scores);
  } else {
    walk.LoadFirst();
    device::WaitForPrior();
    device::LoadQueries<Tile>(task, place.row, place.kv_head, q);
    __syncthreads();
    walk.Score<Tile>(task, place, q, scores);
  }
}

struct ScoreLaunch {
  CudaQueue& queue;
  device::ScoreTask task;
  Dtype q_dtype;
  int64_t max_tiles[2];
  int num_kv_heads;
  int num_rows;
};

// Blocks of a level for a (row, KV head): enough to fill the device, and so few
// that a warp has several tiles where there are many.
int NumBlocks(const ScoreLaunch& launch, int blocks_a_multiprocessor,
              int level) {
  const int64_t lines = int64_t{launch.num_kv_heads} * launch.num_rows;
  const int64_t wanted = int64_t{blocks_a_multiprocessor} *
                         launch.queue.device().num_multiprocessors / lines;
  const int64_t most =
      (launch.max_tiles[level] + device::kScoreWarps - 1) / device::kScoreWarps;
  return static_cast<int>(std::min(std::max<int64_t>(wanted, 1), most));
}

template <typename Tile>
int64_t SharedBytes(const device::ScoreTask& task) {
  const auto score_floats = static_cast<size_t>(
      device::kScoreWarps * task.padded_heads * device::kTileStride);
  return static_cast<int64_t>(sizeof(float) * score_floats +
                              Tile::QueryBytes(task.padded_heads, task.width));
}

// The blocks of `task`; `shared_bytes` of each.
template <typename Tile, bool kStaged>
void LaunchKernel(const ScoreLaunch& launch, const device::ScoreTask& task,
                  int64_t shared_bytes) {
  CHECK(shared_bytes <= kMaxSharedBytes,
        "q heads a KV head={} width={}: {} bytes, limit {}", task.num_heads,
        task.width, shared_bytes, kMaxSharedBytes);
  auto* const kernel = ScoreKernel<Tile, kStaged>;
  launch.queue.Keep(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes)),
      "Select: shared memory for scores");
  if (kStaged) {
    launch.queue.Keep(
        cudaFuncSetAttribute(kernel,
                             cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "Select: shared memory for scores");
  }
  const dim3 grid(
      static_cast<unsigned>(task.num_blocks[0] + task.num_blocks[1]),
      static_cast<unsigned>(launch.num_kv_heads),
      static_cast<unsigned>(launch.num_rows));
  LaunchDependent(launch.queue, "Select: scores", kernel,
                  {.blocks = grid,
                   .num_threads = kThreads,
                   .shared_bytes = static_cast<int>(shared_bytes)},
                  task);
}

// Where rings of whole lines fit; false where they do not.
template <typename Tile>
bool LaunchStaged(const ScoreLaunch& launch, device::ScoreTask& task) {
  const int64_t half_bytes =
      device::StagedRows::kRows * task.width * Tile::kNumberBytes;
  const int64_t shared_bytes =
      SharedBytes<Tile>(task) +
      device::kScoreWarps * device::TileRing::kPlaces * half_bytes;
  if (shared_bytes > kMaxSharedBytes) return false;
  const auto at_a_time = static_cast<int>(kSharedBytesAMultiprocessor /
                                          (shared_bytes + kSharedBytesBeside));
  for (int level = 0; level < 2; ++level) {
    task.num_blocks[level] =
        NumBlocks(launch, std::min(at_a_time, kBlocksAMultiprocessor), level);
  }
  LaunchKernel<Tile, true>(launch, task, shared_bytes);
  return true;
}

template <typename Tile>
void Launch(const ScoreLaunch& launch) {
  device::ScoreTask task = launch.task;
  task.padded_heads =
      (task.num_heads + Tile::kHeads - 1) / Tile::kHeads * Tile::kHeads;
  if constexpr (Tile::kTakesStagedRows) {
    if (LaunchStaged<Tile>(launch, task)) return;
  }
  for (int level = 0; level < 2; ++level) {
    task.num_blocks[level] = NumBlocks(launch, kBlocksAMultiprocessor, level);
  }
  LaunchKernel<Tile, false>(launch, task, SharedBytes<Tile>(task));
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

// Whether every row of the level starts at a multiple of `bytes`.
bool RowsAlign(const device::ScoreTask& task, int level_index, int64_t bytes) {
  const device::Summaries& summaries = task.selector.summaries;
  const device::SummaryLevel& level = summaries.levels[level_index];
  if (level.row_bytes % bytes != 0) return false;
  if (level.kind == device::SummaryKind::kKeys) {
    return reinterpret_cast<uintptr_t>(task.pages.layer_blocks) %
                   static_cast<uintptr_t>(bytes) ==
               0 &&
           task.pages.kv_block_stride_bytes % bytes == 0 &&
           task.pages.head_block_bytes % bytes == 0;
  }
  return reinterpret_cast<uintptr_t>(summaries.rows) %
                 static_cast<uintptr_t>(bytes) ==
             0 &&
         summaries.segment_stride_bytes % bytes == 0 &&
         summaries.head_bytes % bytes == 0 && level.offset_bytes % bytes == 0;
}

// Of a row of float8, loaded at once: all that these rows align.
constexpr int64_t kFloat8Bytes = 4;

// Tensor cores take rows and queries of one 16-bit type; else, and for widths
// that they do not divide, lanes do.
template <typename Row>
void LaunchByShape(const ScoreLaunch& launch, Dtype row_dtype) {
  constexpr int kElements = 16 / sizeof(Row);
  const device::ScoreTask& task = launch.task;
  const int level = launch.max_tiles[0] > 0 ? 0 : 1;
  if (!RowsAlign(task, level, device::kPieceBytes)) {
    return Launch<device::LaneTile<Row, 1, 32, 4>>(launch);
  }
  if constexpr (sizeof(Row) == 2) {
    if (launch.q_dtype == row_dtype && task.width % 32 == 0) {
      if (task.num_heads <= 8) return Launch<device::MmaTile<Row, 1>>(launch);
      return Launch<device::MmaTile<Row, 2>>(launch);
    }
  }
  const int num_pieces = task.width / kElements;
  if (num_pieces <= 8) return LaunchByHeads<Row, kElements, 8>(launch);
  if (num_pieces <= 16) return LaunchByHeads<Row, kElements, 16>(launch);
  LaunchByHeads<Row, kElements, 32>(launch);
}

// By tensor cores as numbers of the queries' type, which all of float8's are.
template <typename Q>
void LaunchFloat8As(const ScoreLaunch& launch) {
  using Row = device::Float8;
  if (launch.task.num_heads <= 8) {
    return Launch<device::MmaTile<Q, 1, Row>>(launch);
  }
  Launch<device::MmaTile<Q, 2, Row>>(launch);
}

void LaunchFloat8(const ScoreLaunch& launch) {
  using Row = device::Float8;
  const device::ScoreTask& task = launch.task;
  const int level = launch.max_tiles[0] > 0 ? 0 : 1;
  const bool aligns = RowsAlign(task, level, kFloat8Bytes);
  if (aligns && task.width % 32 == 0) {
    if (launch.q_dtype == Dtype::kBFloat16) {
      return LaunchFloat8As<__nv_bfloat16>(launch);
    }
    if (launch.q_dtype == Dtype::kFloat16)
      return LaunchFloat8As<__half>(launch);
  }
  if (aligns && task.width % kFloat8Bytes == 0) {
    return Launch<device::LaneTile<Row, kFloat8Bytes, 32, 4>>(launch);
  }
  Launch<device::LaneTile<Row, 1, 32, 4>>(launch);
}

device::ScoreTask MakeTask(const LayerStep& step, const SelectArgs& args,
                           const LayerCache& cache, const SelectWave& wave,
                           size_t selector) {
  device::ScoreTask task = {};
  task.rows = DeviceRows(step);
  task.pages = DevicePages(cache);
  task.selector = DeviceSelector(args.selectors[selector], cache);
  task.selector_index = static_cast<int>(selector);
  if (!args.first_token.empty()) {
    task.first_token = args.first_token.As<int32_t>();
  }
  task.first_row = wave.first_row;
  task.q = args.q.data;
  task.q_type = FloatTypeOf(args.q.dtype);
  task.q_row_stride = args.q.stride[0];
  task.q_head_stride = args.q.stride[1];
  task.num_heads = static_cast<int>(args.q.dim(1)) / cache.num_kv_heads;
  task.scale = args.scale;
  task.memory = wave.memory;
  if (!HasGate(args.selectors[selector])) return task;
  task.q = wave.gate_queries;
  task.first_q_row = wave.first_row;
  task.q_type = device::FloatType::kFloat32;
  task.q_head_stride = cache.format.k_dim;
  task.q_row_stride = cache.num_kv_heads * task.q_head_stride;
  task.num_heads = 1;
  return task;
}

// A row's numbers.
int Width(const SummaryRows& rows, int k_dim) {
  const bool is_bound = rows.kind == SummaryRows::Kind::kMinMax ||
                        rows.kind == SummaryRows::Kind::kCuboid;
  return is_bound ? 2 * k_dim : k_dim;
}

// Whether one launch can score both levels.
bool OfOneShape(const device::ScoreTask& task, const SelectProgram& program,
                const LayerCache& cache) {
  const int k_dim = cache.format.k_dim;
  return LevelDtype(program, 0, cache) == LevelDtype(program, 1, cache) &&
         Width(program.rows, k_dim) == Width(program.normalizer, k_dim) &&
         RowsAlign(task, 0, device::kPieceBytes) ==
             RowsAlign(task, 1, device::kPieceBytes);
}

// Scores the levels that have tiles. REQUIRES: they are of one shape.
void ScoreLevels(ScoreLaunch& launch, const SelectProgram& program,
                 const LayerCache& cache) {
  if (launch.max_tiles[0] + launch.max_tiles[1] == 0) return;
  const int level = launch.max_tiles[0] > 0 ? 0 : 1;
  launch.task.width = Width(LevelRows(program, level), cache.format.k_dim);
  const Dtype dtype = LevelDtype(program, level, cache);
  if (dtype == Dtype::kFloat8E4M3) return LaunchFloat8(launch);
  WithCudaFloat(dtype, [&](auto element) {
    LaunchByShape<decltype(element)>(launch, dtype);
  });
}

}  // namespace

void EnqueueScores(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave, size_t selector) {
  const SelectProgram& program = *args.selectors[selector].program;
  const bool has_gate = HasGate(args.selectors[selector]);
  if (has_gate) EnqueueGateQueries(queue, step, args, cache, wave, selector);
  ScoreLaunch launch = {.queue = queue,
                        .task = MakeTask(step, args, cache, wave, selector),
                        .q_dtype = has_gate ? Dtype::kFloat32 : args.q.dtype,
                        .max_tiles = {},
                        .num_kv_heads = cache.num_kv_heads,
                        .num_rows = wave.num_rows};
  const auto max_tiles = [&](int level) {
    const int64_t max_slots =
        MaxSlots(program, level, int64_t{cache.max_pages} * kPageTokens);
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
