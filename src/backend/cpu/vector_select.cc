#include "backend/cpu/vector_select.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>

#include "backend/cpu/grown_buffer.h"
#include "backend/cpu/vector_read.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr size_t kScratchBytes = size_t{2} << 20;  // a scan
constexpr int64_t kWaveRows = 4096;
// A worker takes at a time a part of what is left, down to a page of all KV
// heads, so that all are done together.
constexpr int kPartsAWorker = 2;

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
int GroupHeads(const View& queries, const LayerCache& cache) {
  return static_cast<int>(queries.dim(1)) / cache.num_kv_heads;
}

}  // namespace

VectorSelect::VectorSelect(CpuKernels kernels, ThreadPool& pool,
                           int64_t wave_scores)
    : kernels_(ReadKernelsOf(kernels)),
      pool_(pool),
      wave_scores_(wave_scores),
      scratch_(static_cast<size_t>(pool.num_workers())) {
  Grow(2 * static_cast<size_t>(pool.num_workers()) * kScratchBytes, lanes_);
  for (SelectScratch& scratch : scratch_) {
    scratch.top = TopScores(&kernels_);
    scratch.scores = RowScores(kernels_);
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
    wave.raw = raw_;
    ScanRows(wave);
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
      const int list_heads = choice.ReducedHeads();
      // A scan of more lanes is one of some of the heads.
      if (list_heads <= kUnitRows) planned.reduced_heads = list_heads;
      const int64_t scored = choice.scored_tokens();
      for (int level = 0; level < 2; ++level) {
        planned.first_score[level] = num_scores;
        planned.num_scores[level] =
            NumVisibleRows(LevelOf(*planned.program, level), scored);
        num_scores += choice.queries().dim(1) / planned.heads_a_score() *
                      planned.num_scores[level];
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
                                   .reduced_heads = row.reduced_heads,
                                   .normalizer = scores + row.first_score[1]});
  }
  return std::ssize(rows_);
}

void VectorSelect::PlanScans(const SelectRows& of) {
  scans_.clear();
  for (int64_t first = 0; first < of.num_rows;) {
    const SelectProgram* program = rows_[static_cast<size_t>(first)].program;
    int count = 1;
    if (program != nullptr) {
      const RowChoice choice(of, of.first_row + first);
      const int request = of.rows.request(of.first_row + first);
      const int max_rows =
          std::max(1, kUnitRows / GroupHeads(choice.queries(), of.cache));
      while (count < max_rows && first + count < of.num_rows &&
             rows_[static_cast<size_t>(first + count)].program == program &&
             of.rows.request(of.first_row + first + count) == request) {
        ++count;
      }
      AddScans(of, first, count);
    }
    first += count;
  }
  CutScans();
}

void VectorSelect::AddScans(const SelectRows& of, int64_t first_row,
                            int num_rows) {
  const RowChoice choice(of, of.first_row + first_row);
  const int group_heads = GroupHeads(choice.queries(), of.cache);
  // The last row sees the most.
  const Row& last = rows_[static_cast<size_t>(first_row + num_rows - 1)];
  Scan scan = {.request = of.rows.request(of.first_row + first_row),
               .first_row = first_row,
               .num_rows = num_rows};
  for (scan.level = 0; scan.level < 2; ++scan.level) {
    if (last.num_scores[scan.level] == 0) continue;
    scan.num_slots = last.num_scores[scan.level] +
                     LeadOf(LevelOf(*last.program, scan.level));
    const int num_kv_heads = of.cache.num_kv_heads;
    for (scan.first_kv_head = 0; scan.first_kv_head < num_kv_heads;
         scan.first_kv_head += kMaxItemHeads) {
      scan.num_kv_heads =
          std::min(num_kv_heads - scan.first_kv_head, kMaxItemHeads);
      for (scan.first_head = 0; scan.first_head < group_heads;
           scan.first_head += kUnitRows) {
        scan.num_heads = std::min(group_heads - scan.first_head, kUnitRows);
        scans_.push_back(scan);
      }
    }
  }
}

void VectorSelect::CutScans() {
  items_.clear();
  int64_t num_left = 0;  // slots of KV heads
  for (const Scan& scan : scans_) {
    num_left += scan.num_slots * scan.num_kv_heads;
  }
  for (const Scan& scan : scans_) {
    for (int64_t slot = 0; slot < scan.num_slots;) {
      const int64_t wanted =
          num_left / (kPartsAWorker * pool_.num_workers() * scan.num_kv_heads);
      // A power of two of pages, which grows no more within the scan: so none
      // begins within pages that lie together.
      const auto num_pages = static_cast<int64_t>(
          std::bit_floor(static_cast<uint64_t>(wanted / kTilePageTokens)));
      const int64_t count =
          std::min(std::max<int64_t>(num_pages, 1) * kTilePageTokens,
                   scan.num_slots - slot);
      items_.push_back({&scan, slot, slot + count});
      slot += count;
      num_left -= count * scan.num_kv_heads;
    }
  }
}

ScanTask VectorSelect::TaskOf(const SelectRows& of, const Scan& scan) const {
  const Row& first = rows_[static_cast<size_t>(scan.first_row)];
  const RowChoice choice(of, of.first_row + scan.first_row);
  const int group_heads = GroupHeads(choice.queries(), of.cache);
  ScanTask task = {.rows = LevelOf(*first.program, scan.level),
                   .table = choice.summaries(),
                   .cache = of.cache,
                   .q = choice.queries(),
                   .level = scan.level,
                   .request = scan.request,
                   .first_kv_head = scan.first_kv_head,
                   .num_kv_heads = scan.num_kv_heads,
                   .num_lanes = scan.num_rows * scan.num_heads,
                   .reduced_lanes = first.reduced_heads,
                   .group = first.program->group,
                   .q_heads_apart = group_heads};
  auto* scores = reinterpret_cast<float*>(scores_.data());
  for (int lane = 0; lane < task.num_lanes; ++lane) {
    const int64_t index = scan.first_row + lane / scan.num_heads;
    const Row& row = rows_[static_cast<size_t>(index)];
    const int64_t head = scan.first_kv_head * group_heads + scan.first_head +
                         lane % scan.num_heads;
    const int64_t count = row.num_scores[scan.level];
    task.lanes[lane] = {
        .row = of.first_row + index,
        .q_head = head,
        .scores = scores + row.first_score[scan.level] +
                  head / row.heads_a_score() * count,
        .num_scores = count,
        .scores_apart = group_heads / row.heads_a_score() * count};
  }
  return task;
}

// Takes items in turn, and keeps the scan of the one before: consecutive items
// are mostly of the same.
class VectorSelect::Walk {
 public:
  Walk(const VectorSelect& of, const SelectRows& rows, int worker,
       std::atomic<size_t>& next_item)
      : of_(of), rows_(rows), worker_(worker), next_item_(next_item) {}

  // The next item's slots; the scan of the last one is still there.
  ScanSlots Take() {
    const size_t index = next_item_.fetch_add(1, std::memory_order_relaxed);
    if (index >= of_.items_.size()) return {};
    const Item& item = of_.items_[index];
    if (item.scan != taken_) {
      taken_ = item.scan;
      turn_ = 1 - turn_;
      std::byte* scratch =
          of_.lanes_.data() +
          static_cast<size_t>(2 * worker_ + turn_) * kScratchBytes;
      scans_[turn_].emplace(of_.kernels_, of_.TaskOf(rows_, *item.scan),
                            ScratchCutter(scratch, kScratchBytes));
    }
    return {&*scans_[turn_], item.first_slot, item.end_slot};
  }

 private:
  const VectorSelect& of_;
  const SelectRows& rows_;
  const int worker_;
  std::atomic<size_t>& next_item_;
  const Scan* taken_ = nullptr;
  int turn_ = 0;
  std::optional<RowScan> scans_[2];
};

void VectorSelect::ScanRows(const SelectRows& of) {
  std::atomic<size_t> next_item = 0;
  const auto scan_items = [&](int64_t, int worker) {
    Walk walk(*this, of, worker, next_item);
    for (ScanSlots at = walk.Take(); at.scan != nullptr;) {
      ScanSlots after;
      at.scan->Run(at.first, at.end, [&] { return after = walk.Take(); });
      at = after;
    }
  };
  pool_.ParallelFor(std::min<int64_t>(std::ssize(items_), pool_.num_workers()),
                    scan_items);
}

}  // namespace winnow
