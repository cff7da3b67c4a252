#include "backend/cpu/isa/vector_select.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>

#include "backend/cpu/grown_buffer.h"
#include "backend/cpu/isa/vector_attend.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr size_t kScratchBytes = size_t{2} << 20;  // a scan
constexpr int64_t kWaveRows = 4096;
// A worker takes at a time a part of what is left, down to a page of all KV
// heads, so that all are done together.
constexpr int kPartsAWorker = 2;
// What a slot's summary takes to come, as scores that are computed of it and
// chosen from: a guess.
constexpr int64_t kSlotCost = 8;

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
                           const Limits& limits)
    : kernels_(VectorKernelsOf(kernels)),
      pool_(pool),
      limits_(limits),
      scratch_(static_cast<size_t>(pool.num_workers())) {
  Grow(2 * static_cast<size_t>(pool.num_workers()) * kScratchBytes, lanes_);
  for (SelectScratch& scratch : scratch_) {
    scratch.top = TopScores(&kernels_);
    scratch.scores = RowScores(kernels_);
  }
}

void VectorSelect::Select(const LayerStep& step, const SelectArgs& args,
                          const LayerCache& cache, const View& gate_queries) {
  if (cache.format.k_dim % 16 != 0 || 2 * cache.format.k_dim > kMaxAttendDim) {
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
    planned.has_lists = choice.program() != nullptr;
    const bool has_layer_lists =
        planned.has_lists && choice.program()->scope == Scope::kLayer;
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
    const int64_t of_all_heads = num_scores * of.cache.num_kv_heads;
    if (of_all_heads > limits_.wave_scores && i > 0) break;
    has_layer_lists_ |= has_layer_lists;
    rows_.push_back(planned);
  }
  return std::ssize(rows_);
}

void VectorSelect::PlanGroups(const SelectRows& of) {
  groups_.clear();
  works_.clear();
  for (int64_t first = 0; first < of.num_rows;) {
    const int64_t end = EndOfGroup(of, first);
    const Row& row = rows_[static_cast<size_t>(first)];
    // The last row sees the most.
    const Row& last = rows_[static_cast<size_t>(end - 1)];
    const int64_t num_slots = last.num_scores[0] + last.num_scores[1];
    KvHeadWork work;
    if (num_slots > 0) {
      const int64_t num_lanes = (end - first) * row.group_heads;
      work = {.cost = num_slots * (kSlotCost + num_lanes),
              .num_scores = last.first_score[1] +
                            last.ScoresOf(last.group_heads, 1) -
                            row.first_score[0]};
    }
    groups_.push_back({.first_row = first,
                       .num_rows = end - first,
                       .num_slots = num_slots,
                       .has_lists = row.has_lists});
    works_.push_back(work);
    first = end;
  }
}

int64_t VectorSelect::EndOfGroup(const SelectRows& of, int64_t first) const {
  const Row& row = rows_[static_cast<size_t>(first)];
  if (row.has_lists && row.program == nullptr) return first + 1;
  const int64_t max_rows =
      row.has_lists ? std::max(1, kUnitRows / row.group_heads) : of.num_rows;
  const int64_t end = std::min(of.num_rows, first + max_rows);
  const int request = of.rows.request(of.first_row + first);
  int64_t next = first + 1;
  for (; next < end; ++next) {
    const Row& other = rows_[static_cast<size_t>(next)];
    if (other.program != row.program || other.has_lists != row.has_lists ||
        (row.has_lists && of.rows.request(of.first_row + next) != request)) {
      break;
    }
  }
  return next;
}

int VectorSelect::UnitHeads(const SelectRows& of) const {
  int64_t num_scanned = 0, num_slots = 0;
  for (const Group& group : groups_) {
    num_scanned += group.num_slots > 0 ? 1 : 0;
    num_slots += group.num_slots;
  }
  const bool are_short = num_slots < num_scanned * limits_.unit_slots;
  if (has_layer_lists_ || are_short) return 0;
  return KvHeadsOfUnit(works_, of.cache.num_kv_heads, kMaxItemHeads,
                       pool_.num_workers());
}

void VectorSelect::PlanUnits(const SelectRows& of, int unit_heads) {
  units_.clear();
  scans_.clear();
  unit_scores_ = 0;
  const int num_kv_heads = of.cache.num_kv_heads;
  const auto add_unit = [&](Unit unit, size_t first_group, size_t end_group) {
    unit.first_scan = scans_.size();
    int64_t num_scores = 0;
    for (size_t i = first_group; i < end_group; ++i) {
      AddScans(of, groups_[i], unit);
      num_scores += works_[i].num_scores * unit.num_kv_heads;
    }
    unit.end_scan = scans_.size();
    unit_scores_ = std::max(unit_scores_, num_scores);
    units_.push_back(unit);
  };
  if (unit_heads == 0) {
    add_unit({.num_rows = of.num_rows, .num_kv_heads = num_kv_heads}, 0,
             groups_.size());
    CutScans();
  }
  for (size_t i = 0; unit_heads > 0 && i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    const int heads = group.has_lists ? unit_heads : num_kv_heads;
    for (int head = 0; head < num_kv_heads; head += heads) {
      add_unit({.first_row = group.first_row,
                .num_rows = group.num_rows,
                .first_kv_head = head,
                .num_kv_heads = std::min(heads, num_kv_heads - head)},
               i, i + 1);
    }
  }
  // Of two workers in no line together.
  constexpr int64_t kLineScores = 16;
  unit_scores_ = (unit_scores_ + kLineScores - 1) / kLineScores * kLineScores;
  const int num_owners = unit_heads == 0 ? 1 : pool_.num_workers();
  Grow(static_cast<size_t>(unit_scores_ * num_owners) * sizeof(float), scores_);
}

void VectorSelect::AddScans(const SelectRows& of, const Group& group,
                            const Unit& unit) {
  if (group.num_slots == 0) return;
  const int64_t last_row = group.first_row + group.num_rows - 1;
  const Row& last = rows_[static_cast<size_t>(last_row)];
  const int end_kv_head = unit.first_kv_head + unit.num_kv_heads;
  Scan scan = {.request = of.rows.request(of.first_row + group.first_row),
               .first_row = group.first_row,
               .num_rows = static_cast<int>(group.num_rows)};
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
                              float* scores) const {
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

  // Scans what `take` gives, each step taken before the last one has ended, and
  // calls made(unit) where a unit has its scores.
  template <typename Take, typename Made>
  void Run(const Take& take, const Made& made) {
    for (Step at = take(); at.slots.scan != nullptr;) {
      Step after;
      at.slots.scan->Run(at.slots.first, at.slots.end, [&] {
        after = take();
        return after.slots;
      });
      if (at.made != nullptr) made(*at.made);
      at = after;
    }
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
    walk.Run([&] { return walk.TakePiece(); }, [](const Unit&) {});
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
    walk.Run([&] { return walk.TakeScan(); },
             [&](const Unit& unit) {
               MakeLists(of, unit, scores, scratch_[index]);
             });
    for (;;) {
      const size_t i =
          next_without_scans.fetch_add(1, std::memory_order_relaxed);
      if (i >= units_.size()) break;
      if (units_[i].first_scan != units_[i].end_scan) continue;
      MakeLists(of, units_[i], scores, scratch_[index]);
    }
  };
  pool_.ParallelFor(std::min<int64_t>(std::ssize(units_), pool_.num_workers()),
                    make_units);
}

void VectorSelect::MakeLists(const SelectRows& of, const Unit& unit,
                             float* scores, SelectScratch& scratch) const {
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
