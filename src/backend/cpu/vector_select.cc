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
// A unit of several KV heads has so many scores at most, so that they are still
// in a core's second cache level when its lists are made.
constexpr int64_t kUnitScores = 16384;

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
    PlanGroups(wave);
    const int unit_heads = UnitHeads(wave);
    PlanUnits(wave, unit_heads);
    if (unit_heads > 0) {
      MakeUnits(wave);
      continue;
    }
    ScanPieces(wave);
    wave.raw = raw_;
    ChooseRows(wave, scratch_, pool_);
  }
  CountReads(rows, args, pool_);
}

int64_t VectorSelect::PlanRows(const SelectRows& of) {
  rows_.clear();
  has_layer_lists_ = false;
  int64_t num_scores = 0;  // of a KV head
  for (int64_t i = 0; i < std::min(of.num_rows, kWaveRows); ++i) {
    Row planned;
    const RowChoice choice(of, of.first_row + i);
    const bool has_layer_lists =
        choice.program() != nullptr && choice.program()->scope == Scope::kLayer;
    if (choice.NeedsScores()) {
      planned.program = choice.program();
      planned.group_heads = GroupHeads(choice.queries(), of.cache);
      const int list_heads = choice.ReducedHeads();
      // A scan of more lanes is one of some of the heads.
      if (list_heads <= kUnitRows) planned.reduced_heads = list_heads;
      const int64_t scored = choice.scored_tokens();
      for (int level = 0; level < 2; ++level) {
        planned.first_score[level] = num_scores;
        planned.num_scores[level] =
            NumVisibleRows(LevelOf(*planned.program, level), scored);
        num_scores += planned.ScoresOf(planned.group_heads, level);
      }
    }
    // The first row alone may have more, whatever this one adds.
    if (num_scores * of.cache.num_kv_heads > wave_scores_ && i > 0) break;
    has_layer_lists_ |= has_layer_lists;
    rows_.push_back(planned);
  }
  return std::ssize(rows_);
}

void VectorSelect::PlanGroups(const SelectRows& of) {
  groups_.clear();
  for (int64_t first = 0; first < of.num_rows;) {
    const int64_t end = EndOfGroup(of, first);
    Group group = {.first_row = first,
                   .num_rows = static_cast<int>(end - first)};
    const Row& row = rows_[static_cast<size_t>(first)];
    // The last row sees the most.
    const Row& last = rows_[static_cast<size_t>(end - 1)];
    const int scans = (row.group_heads + kUnitRows - 1) / kUnitRows;
    group.num_slots = scans * (last.num_scores[0] + last.num_scores[1]);
    group.num_scores = last.first_score[1] +
                       last.ScoresOf(last.group_heads, 1) - row.first_score[0];
    groups_.push_back(group);
    first = end;
  }
}

int64_t VectorSelect::EndOfGroup(const SelectRows& of, int64_t first) const {
  const Row& row = rows_[static_cast<size_t>(first)];
  if (row.program == nullptr) return first + 1;
  const int request = of.rows.request(of.first_row + first);
  const int64_t end = std::min<int64_t>(
      of.num_rows, first + std::max(1, kUnitRows / row.group_heads));
  int64_t next = first + 1;
  while (next < end &&
         rows_[static_cast<size_t>(next)].program == row.program &&
         of.rows.request(of.first_row + next) == request) {
    ++next;
  }
  return next;
}

int VectorSelect::UnitHeads(const SelectRows& of) const {
  if (has_layer_lists_) return 0;
  int64_t num_groups = 0, num_slots = 0, most_slots = 0, most_scores = 0;
  for (const Group& group : groups_) {
    num_groups += group.num_slots > 0 ? 1 : 0;
    num_slots += group.num_slots;
    most_slots = std::max(most_slots, group.num_slots);
    most_scores = std::max(most_scores, group.num_scores);
  }
  if (num_groups == 0) return 0;
  const int num_kv_heads = of.cache.num_kv_heads;
  const int64_t num_workers = pool_.num_workers();
  for (int heads = std::min(num_kv_heads, kMaxItemHeads); heads > 0;
       heads /= 2) {
    if (heads > 1 && heads * most_scores > kUnitScores) continue;
    const int64_t num_units = num_groups * ((num_kv_heads + heads - 1) / heads);
    const int64_t turns = (num_units + num_workers - 1) / num_workers;
    // What one worker does at most, whoever takes which unit.
    const int64_t most =
        std::min(turns * heads * most_slots,
                 num_slots * num_kv_heads / num_workers +
                     (num_workers - 1) * heads * most_slots / num_workers);
    if (16 * num_workers * most <= 17 * num_slots * num_kv_heads) return heads;
  }
  return 0;
}

void VectorSelect::PlanUnits(const SelectRows& of, int unit_heads) {
  units_.clear();
  scans_.clear();
  const int num_kv_heads = of.cache.num_kv_heads;
  unit_scores_ = 0;
  const auto add_unit = [&](Unit unit, std::span<const Group> groups) {
    unit.first_scan = scans_.size();
    int64_t scores = 0;
    for (const Group& group : groups) {
      AddScans(of, group, unit);
      scores += group.num_scores * unit.num_kv_heads;
    }
    unit.end_scan = scans_.size();
    unit_scores_ = std::max(unit_scores_, scores);
    units_.push_back(unit);
  };
  if (unit_heads == 0) {
    add_unit({.num_rows = of.num_rows, .num_kv_heads = num_kv_heads}, groups_);
    CutScans();
  } else {
    for (const Group& group : groups_) {
      for (int head = 0; head < num_kv_heads; head += unit_heads) {
        add_unit({.first_row = group.first_row,
                  .num_rows = group.num_rows,
                  .first_kv_head = head,
                  .num_kv_heads = std::min(unit_heads, num_kv_heads - head)},
                 {&group, 1});
      }
    }
  }
  const int64_t num_scores =
      unit_scores_ * (unit_heads == 0 ? 1 : pool_.num_workers());
  Grow(static_cast<size_t>(num_scores) * sizeof(float), scores_);
}

void VectorSelect::AddScans(const SelectRows& of, const Group& group,
                            const Unit& unit) {
  if (group.num_slots == 0) return;
  const int64_t last_row = group.first_row + group.num_rows - 1;
  const Row& last = rows_[static_cast<size_t>(last_row)];
  const int end_kv_head = unit.first_kv_head + unit.num_kv_heads;
  Scan scan = {.request = of.rows.request(of.first_row + group.first_row),
               .first_row = group.first_row,
               .num_rows = group.num_rows};
  for (scan.level = 0; scan.level < 2; ++scan.level) {
    if (last.num_scores[scan.level] == 0) continue;
    scan.num_slots = last.num_scores[scan.level] +
                     LeadOf(LevelOf(*last.program, scan.level));
    for (scan.first_kv_head = unit.first_kv_head;
         scan.first_kv_head < end_kv_head;
         scan.first_kv_head += kMaxItemHeads) {
      scan.num_kv_heads =
          std::min(end_kv_head - scan.first_kv_head, kMaxItemHeads);
      for (scan.first_head = 0; scan.first_head < last.group_heads;
           scan.first_head += kUnitRows) {
        scan.num_heads =
            std::min(last.group_heads - scan.first_head, kUnitRows);
        scans_.push_back(scan);
      }
    }
  }
}

void VectorSelect::CutScans() {
  pieces_.clear();
  int64_t num_left = 0;  // slots of KV heads
  for (const Scan& scan : scans_) {
    num_left += scan.num_slots * scan.num_kv_heads;
  }
  for (size_t i = 0; i < scans_.size(); ++i) {
    const Scan& scan = scans_[i];
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
      pieces_.push_back({i, slot, slot + count});
      slot += count;
      num_left -= count * scan.num_kv_heads;
    }
  }
}

int64_t VectorSelect::FirstScore(const Unit& unit, const Row& row,
                                 int level) const {
  const Row& first = rows_[static_cast<size_t>(unit.first_row)];
  return (row.first_score[level] - first.first_score[0]) * unit.num_kv_heads;
}

RawScores VectorSelect::RawOf(const Unit& unit, int64_t row,
                              const float* scores) const {
  const Row& of = rows_[static_cast<size_t>(row)];
  if (of.program == nullptr) return {};
  return {.rows = scores + FirstScore(unit, of, 0),
          .reduced_heads = of.reduced_heads,
          .normalizer = scores + FirstScore(unit, of, 1),
          .first_head = unit.first_kv_head * of.group_heads};
}

ScanTask VectorSelect::TaskOf(const SelectRows& of, const Unit& unit,
                              const Scan& scan, float* scores) const {
  const Row& first = rows_[static_cast<size_t>(scan.first_row)];
  const RowChoice choice(of, of.first_row + scan.first_row);
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
                   .q_heads_apart = first.group_heads};
  for (int lane = 0; lane < task.num_lanes; ++lane) {
    const int64_t index = scan.first_row + lane / scan.num_heads;
    const Row& row = rows_[static_cast<size_t>(index)];
    // Of the unit's, as RawOf has it.
    const int64_t head =
        (scan.first_kv_head - unit.first_kv_head) * row.group_heads +
        scan.first_head + lane % scan.num_heads;
    task.lanes[lane] = {
        .row = of.first_row + index,
        .q_head = unit.first_kv_head * row.group_heads + head,
        .scores = scores + FirstScore(unit, row, scan.level) +
                  row.ScoresOf(head, scan.level),
        .num_scores = row.num_scores[scan.level],
        .scores_apart = row.ScoresOf(row.group_heads, scan.level)};
  }
  return task;
}

// Takes scans in turn, of units or of pieces, and keeps the one before:
// consecutive pieces are mostly of the same.
class VectorSelect::Walk {
 public:
  // Slots of a scan, and the unit that has all of its scores then, or null.
  struct Step {
    ScanSlots slots;
    const Unit* made = nullptr;
  };

  Walk(const VectorSelect& of, const SelectRows& rows, int worker,
       float* scores, std::atomic<size_t>& next)
      : of_(of), rows_(rows), worker_(worker), scores_(scores), next_(next) {}

  // The next piece, whose unit is the wave; the scan of the last one is still
  // there.
  Step TakePiece() {
    const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= of_.pieces_.size()) return {};
    const Piece& piece = of_.pieces_[index];
    return {{Turn(of_.units_[0], piece.scan), piece.first_slot, piece.end_slot},
            nullptr};
  }

  // The next scan of the unit, or of the next one that has scans; likewise.
  Step TakeScan() {
    while (unit_ == nullptr || scan_ == unit_->end_scan) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= of_.units_.size()) return {};
      unit_ = &of_.units_[index];
      scan_ = unit_->first_scan;
    }
    const size_t scan = scan_++;
    return {{Turn(*unit_, scan), 0, of_.scans_[scan].num_slots},
            scan_ == unit_->end_scan ? unit_ : nullptr};
  }

 private:
  RowScan* Turn(const Unit& unit, size_t scan) {
    if (&of_.scans_[scan] != taken_) {
      taken_ = &of_.scans_[scan];
      turn_ = 1 - turn_;
      std::byte* scratch =
          of_.lanes_.data() +
          static_cast<size_t>(2 * worker_ + turn_) * kScratchBytes;
      scans_[turn_].emplace(of_.kernels_,
                            of_.TaskOf(rows_, unit, *taken_, scores_),
                            ScratchCutter(scratch, kScratchBytes));
    }
    return &*scans_[turn_];
  }

  const VectorSelect& of_;
  const SelectRows& rows_;
  const int worker_;
  float* const scores_;
  std::atomic<size_t>& next_;
  const Unit* unit_ = nullptr;
  size_t scan_ = 0;
  const Scan* taken_ = nullptr;
  int turn_ = 0;
  std::optional<RowScan> scans_[2];
};

void VectorSelect::ScanPieces(const SelectRows& of) {
  auto* scores = reinterpret_cast<float*>(scores_.data());
  std::atomic<size_t> next = 0;
  const auto scan_pieces = [&](int64_t, int worker) {
    Walk walk(*this, of, worker, scores, next);
    for (Walk::Step at = walk.TakePiece(); at.slots.scan != nullptr;) {
      Walk::Step after;
      at.slots.scan->Run(at.slots.first, at.slots.end, [&] {
        after = walk.TakePiece();
        return after.slots;
      });
      at = after;
    }
  };
  pool_.ParallelFor(std::min<int64_t>(std::ssize(pieces_), pool_.num_workers()),
                    scan_pieces);
  raw_.clear();
  for (int64_t row = 0; row < of.num_rows; ++row) {
    raw_.push_back(RawOf(units_[0], row, scores));
  }
}

void VectorSelect::MakeUnits(const SelectRows& of) {
  std::atomic<size_t> next = 0;
  std::atomic<size_t> next_without_scans = 0;
  const auto make_units = [&](int64_t, int worker) {
    const auto index = static_cast<size_t>(worker);
    auto* scores =
        reinterpret_cast<float*>(scores_.data()) + worker * unit_scores_;
    Walk walk(*this, of, worker, scores, next);
    for (Walk::Step at = walk.TakeScan(); at.slots.scan != nullptr;) {
      Walk::Step after;
      at.slots.scan->Run(at.slots.first, at.slots.end, [&] {
        after = walk.TakeScan();
        return after.slots;
      });
      if (at.made != nullptr) MakeLists(of, *at.made, scores, scratch_[index]);
      at = after;
    }
    for (size_t i; (i = next_without_scans.fetch_add(1)) < units_.size();) {
      if (units_[i].first_scan != units_[i].end_scan) continue;
      MakeLists(of, units_[i], scores, scratch_[index]);
    }
  };
  pool_.ParallelFor(std::min<int64_t>(std::ssize(units_), pool_.num_workers()),
                    make_units);
}

void VectorSelect::MakeLists(const SelectRows& of, const Unit& unit,
                             const float* scores,
                             SelectScratch& scratch) const {
  for (int64_t row = unit.first_row; row < unit.first_row + unit.num_rows;
       ++row) {
    const RowChoice choice(of, of.first_row + row);
    if (unit.first_kv_head == 0) choice.Begin();
    const RawScores raw = RawOf(unit, row, scores);
    const int lists = choice.ListsOfKvHead();
    const int end = (unit.first_kv_head + unit.num_kv_heads) * lists;
    for (int list = unit.first_kv_head * lists; list < end; ++list) {
      choice.Choose(list, raw, scratch);
    }
  }
}

}  // namespace winnow
