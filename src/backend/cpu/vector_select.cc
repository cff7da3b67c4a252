#include "backend/cpu/vector_select.h"

#include <algorithm>

#include "backend/cpu/grown_buffer.h"
#include "backend/cpu/vector_read.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr size_t kScratchBytes = size_t{2} << 20;  // a worker
constexpr int64_t kWaveRows = 4096;
// Enough items to even out, of enough slots that few rows are read without
// having been prefetched by those before.
constexpr int kItemsAWorker = 8;
constexpr int64_t kMinItemTiles = 2;
constexpr int64_t kMaxItemTiles = 32;

const SummaryRows& LevelOf(const SelectProgram& program, int level) {
  return level == 0 ? program.rows : program.normalizer;
}

// A key's slot is its token, a cluster's its number.
int64_t LeadOf(const SummaryRows& rows) {
  return rows.kind == SummaryRows::Kind::kKeys ||
                 rows.kind == SummaryRows::Kind::kClusters
             ? 0
             : rows.tokens / rows.stride - 1;
}

// Query heads a KV head.
int GroupHeads(const RowChoice& choice, const LayerCache& cache) {
  return static_cast<int>(choice.queries().dim(1)) / cache.num_kv_heads;
}

}  // namespace

VectorSelect::VectorSelect(CpuKernels kernels, ThreadPool& pool,
                           int64_t wave_scores)
    : kernels_(ReadKernelsOf(kernels)),
      pool_(pool),
      wave_scores_(wave_scores),
      scratch_(static_cast<size_t>(pool.num_workers())) {
  Grow(static_cast<size_t>(pool.num_workers()) * kScratchBytes, lanes_);
  for (SelectScratch& scratch : scratch_) {
    scratch.top = TopScores(&kernels_);
    scratch.scores = RowScores(kernels_.softmax_scores);
  }
}

void VectorSelect::Select(const LayerStep& step, const SelectArgs& args,
                          const LayerCache& cache, const View& gate_queries) {
  if (cache.format.k_dim % 16 != 0 || 2 * cache.format.k_dim > kMaxReadDim) {
    return SelectScalar(step, args, cache, gate_queries, scratch_, pool_);
  }
  if (step.num_rows == 0) return;
  CheckSelect(step, args, cache);
  const StepRows rows(step);
  const int64_t end_row = args.picks.first_row + args.picks.num_rows();
  SelectRows wave = {
      .rows = rows, .args = args, .cache = cache, .gate_queries = gate_queries};
  for (int64_t row = args.picks.first_row; row < end_row;
       row += wave.num_rows) {
    wave.first_row = row;
    wave.num_rows = end_row - row;
    wave.num_rows = PlanRows(wave);
    PlanScans(wave);
    RunScans(wave);
    wave.raw = raw_;
    ChooseRows(wave, scratch_, pool_);
  }
  CountReads(rows, args, pool_);
}

int64_t VectorSelect::PlanRows(const SelectRows& of) {
  rows_.clear();
  int64_t num_scores = 0;
  for (int64_t i = 0; i < std::min(of.num_rows, kWaveRows); ++i) {
    const int64_t row = of.first_row + i;
    const int64_t scores_before = num_scores;
    Row planned;
    const RowChoice choice(of, row);
    if (choice.NeedsScores()) {
      planned.program = choice.program();
      const int64_t scored = choice.scored_tokens();
      for (int level = 0; level < 2; ++level) {
        planned.first_score[level] = num_scores;
        planned.num_scores[level] =
            NumVisibleRows(LevelOf(*planned.program, level), scored);
        num_scores += choice.queries().dim(1) * planned.num_scores[level];
      }
    }
    if (num_scores > wave_scores_ && i > 0) {
      // The first row alone may have more, whatever this one adds.
      num_scores = scores_before;
      break;
    }
    rows_.push_back(planned);
  }
  Grow(static_cast<size_t>(num_scores) * sizeof(float), scores_);
  const auto* scores = reinterpret_cast<const float*>(scores_.data());
  raw_.clear();
  for (const Row& row : rows_) {
    raw_.push_back(row.program == nullptr
                       ? RawScores()
                       : RawScores{.rows = scores + row.first_score[0],
                                   .normalizer = scores + row.first_score[1]});
  }
  return std::ssize(rows_);
}

void VectorSelect::PlanScans(const SelectRows& of) {
  scans_.clear();
  for (int64_t first = 0; first < of.num_rows;) {
    const SelectProgram* program = rows_[static_cast<size_t>(first)].program;
    if (program == nullptr) {
      ++first;
      continue;
    }
    const int request = of.rows.request(of.first_row + first);
    const int max_rows = std::max(
        1,
        kUnitRows / GroupHeads(RowChoice(of, of.first_row + first), of.cache));
    int count = 1;
    while (count < max_rows && first + count < of.num_rows &&
           rows_[static_cast<size_t>(first + count)].program == program &&
           of.rows.request(of.first_row + first + count) == request) {
      ++count;
    }
    AddScans(of, first, count);
    first += count;
  }
  int64_t num_tiles = 0;
  for (const Scan& scan : scans_) {
    num_tiles += (scan.num_slots + kTileKeys - 1) / kTileKeys;
  }
  item_slots_ =
      kTileKeys * std::clamp(num_tiles / (kItemsAWorker * pool_.num_workers()),
                             kMinItemTiles, kMaxItemTiles);
  int64_t num_items = 0;
  for (Scan& scan : scans_) {
    scan.first_item = num_items;
    num_items += (scan.num_slots + item_slots_ - 1) / item_slots_;
  }
  // Behind the last one.
  scans_.push_back({.first_item = num_items});
}

void VectorSelect::AddScans(const SelectRows& of, int64_t first_row,
                            int num_rows) {
  const int group_heads =
      GroupHeads(RowChoice(of, of.first_row + first_row), of.cache);
  // The last row sees the most.
  const Row& last = rows_[static_cast<size_t>(first_row + num_rows - 1)];
  for (int level = 0; level < 2; ++level) {
    if (last.num_scores[level] == 0) continue;
    for (int kv_head = 0; kv_head < of.cache.num_kv_heads; ++kv_head) {
      for (int head = 0; head < group_heads; head += kUnitRows) {
        scans_.push_back({.request = of.rows.request(of.first_row + first_row),
                          .kv_head = kv_head,
                          .level = level,
                          .first_head = kv_head * group_heads + head,
                          .num_heads = std::min(group_heads - head, kUnitRows),
                          .first_row = first_row,
                          .num_rows = num_rows,
                          .num_slots = last.num_scores[level] +
                                       LeadOf(LevelOf(*last.program, level))});
      }
    }
  }
}

ScanTask VectorSelect::TaskOf(const SelectRows& of, const Scan& scan,
                              int64_t first_slot) const {
  const Row& first = rows_[static_cast<size_t>(scan.first_row)];
  const RowChoice choice(of, of.first_row + scan.first_row);
  ScanTask task = {
      .rows = LevelOf(*first.program, scan.level),
      .table = choice.summaries(),
      .cache = of.cache,
      .q = choice.queries(),
      .level = scan.level,
      .request = scan.request,
      .kv_head = scan.kv_head,
      .first_slot = first_slot,
      .end_slot = std::min(first_slot + item_slots_, scan.num_slots),
      .num_lanes = scan.num_rows * scan.num_heads};
  auto* scores = reinterpret_cast<float*>(scores_.data());
  for (int lane = 0; lane < task.num_lanes; ++lane) {
    const int64_t index = scan.first_row + lane / scan.num_heads;
    const Row& row = rows_[static_cast<size_t>(index)];
    const int64_t head = scan.first_head + lane % scan.num_heads;
    const int64_t count = row.num_scores[scan.level];
    task.lanes[lane] = {
        .row = of.first_row + index,
        .q_head = head,
        .scores = scores + row.first_score[scan.level] + head * count,
        .num_scores = count};
  }
  return task;
}

void VectorSelect::RunScans(const SelectRows& of) {
  pool_.ParallelFor(scans_.back().first_item, [&](int64_t item, int worker) {
    const auto after =
        std::ranges::upper_bound(scans_, item, {}, &Scan::first_item);
    const Scan& scan = *(after - 1);
    const ScanTask task =
        TaskOf(of, scan, (item - scan.first_item) * item_slots_);
    std::byte* scratch =
        lanes_.data() + static_cast<size_t>(worker) * kScratchBytes;
    RowScan(kernels_, task, ScratchCutter(scratch, kScratchBytes)).Run();
  });
}

}  // namespace winnow
