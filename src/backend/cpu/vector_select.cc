#include "backend/cpu/vector_select.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>

#include "backend/cpu/grown_buffer.h"
#include "backend/cpu/vector_read.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr size_t kScratchBytes = size_t{2} << 20;  // an item
constexpr int64_t kWaveRows = 4096;
// Enough items to even out, where KV heads are many none of a part of one: the
// scores that a list needs are then in one worker's caches. (Eight a worker:
// 67 us in place of 61 for Select of 1 MiB; the last lists' in halves or
// quarters: 63 in place of 59.)
constexpr int kItemsAWorker = 4;
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
    Run(wave);
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
        num_scores += choice.queries().dim(1) / planned.reduced_heads *
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
  choices_.clear();
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
    }
    AddChoices(of, first, count);
    first += count;
  }
  CutScans();
}

void VectorSelect::AddChoices(const SelectRows& of, int64_t first_row,
                              int num_rows) {
  const RowChoice row(of, of.first_row + first_row);
  // A row without a program is all of it one list's.
  const int num_heads = row.program() == nullptr ? 1 : of.cache.num_kv_heads;
  const bool of_q_heads =
      row.program() != nullptr && row.program()->scope == Scope::kQHead;
  const int num_lists =
      of_q_heads ? GroupHeads(of.args.q, of.cache) : 1;  // a KV head
  const bool of_layer =
      rows_[static_cast<size_t>(first_row)].program != nullptr &&
      row.program()->scope == Scope::kLayer;
  for (int kv_head = 0; kv_head < num_heads; ++kv_head) {
    // All KV heads decide on a list of the layer.
    if (kv_head == 0 || !of_layer) {
      choices_.push_back({.first_row = first_row,
                          .num_rows = num_rows,
                          .first_list = kv_head * num_lists,
                          .end_list = (kv_head + 1) * num_lists});
    }
    AddScans(of, choices_.back(), kv_head);
  }
}

void VectorSelect::AddScans(const SelectRows& of, const Choice& choice,
                            int kv_head) {
  const int request = of.rows.request(of.first_row + choice.first_row);
  Scan scan = {.request = request,
               .kv_head = kv_head,
               .first_row = choice.first_row,
               .num_rows = choice.num_rows,
               .choice = choices_.size() - 1};
  // The last row sees the most.
  const Row& last =
      rows_[static_cast<size_t>(choice.first_row + choice.num_rows - 1)];
  const size_t num_before = scans_.size();
  for (scan.level = 0; scan.level < 2; ++scan.level) {
    if (last.num_scores[scan.level] == 0) continue;
    const RowChoice row(of, of.first_row + choice.first_row);
    const int group_heads = GroupHeads(row.queries(), of.cache);
    scan.num_slots = last.num_scores[scan.level] +
                     LeadOf(LevelOf(*last.program, scan.level));
    for (int head = 0; head < group_heads; head += kUnitRows) {
      scan.first_head = kv_head * group_heads + head;
      scan.num_heads = std::min(group_heads - head, kUnitRows);
      scans_.push_back(scan);
    }
  }
  if (scans_.size() == num_before) scans_.push_back(scan);
}

void VectorSelect::CutScans() {
  int64_t num_tiles = 0;
  for (const Scan& scan : scans_) {
    num_tiles += (scan.num_slots + kTileKeys - 1) / kTileKeys;
  }
  item_slots_ =
      kTileKeys * std::clamp(num_tiles / (kItemsAWorker * pool_.num_workers()),
                             kMinItemTiles, kMaxItemTiles);
  first_items_.clear();
  int64_t num_items = 0, share_slots = 0;
  const Choice* of_share = nullptr;
  for (Scan& scan : scans_) {
    scan.first_item = num_items;
    const int64_t count =
        std::max<int64_t>(1, (scan.num_slots + item_slots_ - 1) / item_slots_);
    Choice& choice = choices_[scan.choice];
    choice.num_left += static_cast<int>(count);
    share_slots += scan.num_slots;
    const bool joins = of_share == &choice && share_slots <= item_slots_;
    for (int64_t i = joins ? 1 : 0; i < count; ++i) {
      first_items_.push_back(num_items + i);
    }
    if (!joins) share_slots = scan.num_slots;
    of_share = &choice;
    num_items += count;
  }
  // Behind the last ones.
  first_items_.push_back(num_items);
  scans_.push_back({.first_item = num_items});
}

ScanTask VectorSelect::TaskOf(const SelectRows& of, int64_t item) const {
  const Scan& scan = ScanOf(item);
  const int64_t first_slot = (item - scan.first_item) * item_slots_;
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
      .num_lanes = scan.num_rows * scan.num_heads,
      .reduced_lanes = first.reduced_heads,
      .group = first.program->group};
  auto* scores = reinterpret_cast<float*>(scores_.data());
  for (int lane = 0; lane < task.num_lanes; ++lane) {
    const int64_t index = scan.first_row + lane / scan.num_heads;
    const Row& row = rows_[static_cast<size_t>(index)];
    const int64_t head = scan.first_head + lane % scan.num_heads;
    const int64_t count = row.num_scores[scan.level];
    task.lanes[lane] = {.row = of.first_row + index,
                        .q_head = head,
                        .scores = scores + row.first_score[scan.level] +
                                  head / row.reduced_heads * count,
                        .num_scores = count};
  }
  return task;
}

void VectorSelect::Run(const SelectRows& of) {
  std::atomic<size_t> next_share = 0;
  const int64_t num_items = first_items_.back();
  pool_.ParallelFor(
      std::min<int64_t>(std::ssize(first_items_) - 1, pool_.num_workers()),
      [&](int64_t, int worker) {
        int64_t end_item = 0;  // of the worker's share
        const auto item_after = [&](int64_t item) {
          if (item + 1 < end_item) return item + 1;
          const size_t share =
              next_share.fetch_add(1, std::memory_order_relaxed);
          if (share + 1 >= first_items_.size()) return num_items;
          end_item = first_items_[share + 1];
          return first_items_[share];
        };
        std::optional<RowScan> of_items[2];  // in turns
        // Begins item `item` of the worker, and returns its scan, if any.
        const auto begin = [&](int64_t item, int turn) -> RowScan* {
          std::optional<RowScan>& scan = of_items[turn];
          scan.reset();
          if (item >= num_items || ScanOf(item).num_slots == 0) return nullptr;
          std::byte* scratch =
              lanes_.data() +
              static_cast<size_t>(2 * worker + turn) * kScratchBytes;
          scan.emplace(kernels_, TaskOf(of, item),
                       ScratchCutter(scratch, kScratchBytes));
          return &*scan;
        };
        int64_t item = item_after(-1);
        begin(item, 0);
        for (int turn = 0; item < num_items; turn = 1 - turn) {
          int64_t after = -1;
          const auto begin_next = [&] {
            after = item_after(item);
            return begin(after, 1 - turn);
          };
          if (of_items[turn]) of_items[turn]->Run(std::ref(begin_next));
          Finish(of, ScanOf(item), worker);
          if (after < 0) begin_next();
          item = after;
        }
      });
}

const VectorSelect::Scan& VectorSelect::ScanOf(int64_t item) const {
  return *(std::ranges::upper_bound(scans_, item, {}, &Scan::first_item) - 1);
}

void VectorSelect::Finish(const SelectRows& of, const Scan& scan, int worker) {
  Choice& choice = choices_[scan.choice];
  // What others have scanned is seen by whoever is last.
  if (std::atomic_ref(choice.num_left).fetch_sub(1) > 1) return;
  for (int64_t row = choice.first_row; row < choice.first_row + choice.num_rows;
       ++row) {
    const RowChoice of_row(of, of.first_row + row);
    if (choice.first_list == 0) of_row.Begin();
    for (int list = choice.first_list; list < choice.end_list; ++list) {
      of_row.Choose(list, of.raw[static_cast<size_t>(row)],
                    scratch_[static_cast<size_t>(worker)]);
    }
  }
}

}  // namespace winnow
