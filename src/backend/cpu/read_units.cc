#include "backend/cpu/read_units.h"

#include <algorithm>
#include <atomic>

#include "backend/cpu/fetch_ahead.h"
#include "backend/cpu/softmax_state.h"
#include "backend/cpu/tile_pages.h"
#include "backend/cpu/unit_tasks.h"
#include "backend/picks.h"

namespace winnow {
namespace {

static_assert(kTileKeys == kUnitPicks * kPageTokens);

// Where each unit leaves a state, an item has so many units that a worker gets
// this many items: enough to even out.
constexpr int kItemsAWorker = 16;

// Where lane `lane` of the state after `index` others stands.
SoftmaxState StateAt(float* memory, int dim, int num_lanes, int index,
                     int lane) {
  return {memory + (int64_t{index} * num_lanes + lane) *
                       SoftmaxState::NumFloats(dim),
          dim};
}

// Finds the keys and values of an item's units.
class ItemUnits {
 public:
  ItemUnits(const ReadJob& job, const ReadItem& item, WidenKernel widen,
            ScratchCutter& scratch)
      : pages_({job.cache, job.args.slots, item.rows.request, item.rows.kv_head,
                widen},
               scratch),
        picks_(PicksOf(job, PlaceOf(job, item.rows, 0))) {
    const int last_lane = item.rows.num_lanes() - 1;
    visible_.last_of_first = job.rows.position(PlaceOf(job, item.rows, 0).row);
    visible_.last_of_last =
        job.rows.position(PlaceOf(job, item.rows, last_lane).row);
    visible_.first_of_first =
        FirstVisible(visible_.last_of_first, job.step.window);
    visible_.first_of_last =
        FirstVisible(visible_.last_of_last, job.step.window);
  }

  TileKeys Unit(int unit) const {
    if (picks_.every_page) return pages_.Tile(unit, visible_);
    const auto first = static_cast<size_t>(unit) * kUnitPicks;
    return pages_.Picked(
        picks_.list.subspan(
            first, std::min<size_t>(kUnitPicks, picks_.list.size() - first)),
        visible_.first_of_first, visible_.last_of_last);
  }

 private:
  const TilePages pages_;
  const RowPicks picks_;  // of all rows alike
  VisibleKeys visible_;
};

// The items of a wave, handed out to workers in ascending order. A worker asks
// for its next item when it begins the last unit of the one before, so that it
// can fetch the first unit of the next meanwhile.
class ItemQueue {
 public:
  ItemQueue(const ReadItem* items, int num_items)
      : items_(items), num_items_(num_items) {}

  // Null where none is left.
  const ReadItem* Take() {
    const int item = next_.fetch_add(1, std::memory_order_relaxed);
    return item < num_items_ ? items_ + item : nullptr;
  }

 private:
  const ReadItem* const items_;
  const int num_items_;
  std::atomic<int> next_{0};
};

// One item: the states of its units, or of the one group that they make up.
class UnitRun {
 public:
  UnitRun(const ReadJob& job, const ReadItem& item, int worker)
      : job_(job),
        item_(item),
        dim_(job.cache.format.v_dim),
        num_lanes_(item.rows.num_lanes()),
        scratch_(job.workspace.Scratch(worker)) {
    const int64_t q_words = job.cache.format.k_dim / (job.unit_paired ? 2 : 1);
    float* q = scratch_.Take<float>(num_lanes_ * q_words);
    int32_t* first_key = scratch_.Take<int32_t>(num_lanes_);
    int32_t* last_key = scratch_.Take<int32_t>(num_lanes_);
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const LanePlace place = PlaceOf(job, item.rows, lane);
      const int64_t position = job.rows.position(place.row);
      first_key[lane] =
          static_cast<int32_t>(FirstVisible(position, job.step.window));
      last_key[lane] = static_cast<int32_t>(position);
      PackQuery(job, place, job.unit_paired, q + lane * q_words, 1);
    }
    rows_ = {.num_rows = num_lanes_,
             .q = q,
             .first_key = first_key,
             .last_key = last_key,
             .scale_log2 = job.scale_log2,
             .maximum = scratch_.Take<float>(num_lanes_),
             .sum = scratch_.Take<float>(num_lanes_),
             .values = scratch_.Take<float>(int64_t{num_lanes_} * dim_),
             .scores = scratch_.Take<float>(num_lanes_ * kTileKeys),
             .weights = scratch_.Take<float>(num_lanes_ * kTileKeys),
             .transposed_k = scratch_.Take<float>(
                 int64_t{job.cache.format.k_dim} * kTilePageTokens)};
  }

  // Returns the worker's next item.
  const ReadItem* Run(bool as_group, ItemQueue& queue) {
    const ItemUnits units(job_, item_, job_.unit_widen, scratch_);
    // What is copied has room for one unit.
    const bool prefetches = job_.unit_widen == nullptr &&
                            !PagesLieApart(job_.cache, job_.args.slots);
    const int element_bytes = DtypeBytes(job_.cache.format.k);
    const ReadItem* next_item = nullptr;
    TileKeys keys, next;
    for (int i = 0; i < item_.num_units; ++i) {
      const int unit = item_.first_unit + i;
      const bool last = i + 1 == item_.num_units;
      keys = prefetches && i > 0 ? next : units.Unit(unit);
      if (last) next_item = queue.Take();
      if (prefetches) {
        next = !last                  ? units.Unit(unit + 1)
               : next_item != nullptr ? FirstUnit(*next_item)
                                      : TileKeys();
        FetchAhead(next, element_bytes, keys);
      }
      job_.unit(keys, rows_);
      for (int lane = 0; lane < num_lanes_; ++lane) {
        const SoftmaxState state =
            StateAt(item_.partial, dim_, num_lanes_, as_group ? 0 : i, lane);
        if (i == 0 || !as_group) state.MarkEmpty();
        state.Merge(rows_.values + int64_t{lane} * dim_, rows_.maximum[lane],
                    rows_.sum[lane]);
      }
    }
    return next_item;
  }

 private:
  // REQUIRES: K and V are read as they are stored.
  TileKeys FirstUnit(const ReadItem& item) {
    return ItemUnits(job_, item, nullptr, scratch_).Unit(item.first_unit);
  }

  const ReadJob& job_;
  const ReadItem& item_;
  const int dim_;
  const int num_lanes_;
  ScratchCutter scratch_;
  UnitRows rows_;
};

// Runs the tasks of a step in waves: as many items as the workspace has room
// for, then their merges. A task that a wave cuts in two leaves its states
// (the row's, and the open group's) to the next one.
class UnitWaves {
 public:
  explicit UnitWaves(const ReadJob& job)
      : job_(job),
        dim_(job.cache.format.v_dim),
        left_(job.workspace.partials()),
        taken_(left_ + CarryFloats()),
        begin_(taken_ + CarryFloats()),
        end_(job.workspace.partials() + job.workspace.num_partials()),
        next_(begin_) {
    ChooseGrain();
  }

  void Run() {
    UnitTask task;
    for (TaskCursor tasks(job_); tasks.Next(task);) Add(task);
    Flush();
  }

 private:
  int64_t CarryFloats() const {
    return 2 * kUnitRows * SoftmaxState::NumFloats(dim_);
  }

  // Decides what an item is. Bits do not depend on it.
  void ChooseGrain() {
    int64_t num_units = 0, num_groups = 0;
    UnitTask task;
    for (TaskCursor tasks(job_); tasks.Next(task);) {
      num_units += task.end_unit - task.first_unit;
      num_groups +=
          (task.end_unit - 1) / kGroupUnits - task.first_unit / kGroupUnits + 1;
    }
    const int num_items = kItemsAWorker * job_.pool.num_workers();
    as_groups_ = num_groups >= num_items;
    units_an_item_ = static_cast<int>(num_units / num_items + 1);
  }

  void Add(const UnitTask& task) {
    const int64_t state_floats =
        task.rows.num_lanes() * SoftmaxState::NumFloats(dim_);
    bool open = false;  // the last merge is this task's
    for (int unit = task.first_unit; unit < task.end_unit;) {
      const int group_end = (unit / kGroupUnits + 1) * kGroupUnits;
      int num_units = std::min(task.end_unit, group_end) - unit;
      if (!as_groups_) num_units = std::min(num_units, units_an_item_);
      const int64_t floats = state_floats * (as_groups_ ? 1 : num_units);
      if (num_items_ == ReadWorkspace::kMaxItems || end_ - next_ < floats) {
        Flush();
        open = false;
      }
      job_.workspace.items()[num_items_++] = {task.rows, unit, num_units,
                                              next_};
      if (!open) {
        job_.workspace.merges()[num_merges_++] = {
            .rows = task.rows,
            .first_unit = unit,
            .partial = next_,
            .continues = unit != task.first_unit};
        open = true;
      }
      ReadMerge& merge = job_.workspace.merges()[num_merges_ - 1];
      merge.num_units += num_units;
      merge.ends = unit + num_units == task.end_unit;
      next_ += floats;
      unit += num_units;
    }
  }

  void Flush() {
    ItemQueue queue(job_.workspace.items(), num_items_);
    job_.pool.ParallelFor(
        std::min(num_items_, job_.pool.num_workers()),
        [&](int64_t, int worker) {
          const ReadItem* item = queue.Take();
          while (item != nullptr) {
            item = UnitRun(job_, *item, worker).Run(as_groups_, queue);
          }
        });
    const ReadMerge* merges = job_.workspace.merges();
    job_.pool.ParallelFor(int64_t{num_merges_} * kUnitRows,
                          [&](int64_t i, int worker) {
                            const ReadMerge& merge = merges[i / kUnitRows];
                            const int lane = static_cast<int>(i % kUnitRows);
                            if (lane < merge.rows.num_lanes())
                              MergeLane(merge, lane, worker);
                          });
    num_items_ = num_merges_ = 0;
    next_ = begin_;
    std::swap(left_, taken_);
  }

  // Merges the units (or groups) of one lane in order: into their group, and
  // each group into the row.
  void MergeLane(const ReadMerge& merge, int lane, int worker) const {
    const int64_t floats = 2 * SoftmaxState::NumFloats(dim_);
    float* memory = job_.workspace.Scratch(worker).Take<float>(floats);
    const SoftmaxState row = StateAt(memory, dim_, 1, 0, 0);
    const SoftmaxState group = StateAt(memory, dim_, 1, 1, 0);
    if (merge.continues) {
      std::copy_n(taken_ + lane * floats, floats, memory);
    } else {
      row.MarkEmpty();
      group.MarkEmpty();
    }
    int unit = merge.first_unit;
    const int end_unit = unit + merge.num_units;
    for (int index = 0; unit < end_unit; ++index) {
      group.Merge(
          StateAt(merge.partial, dim_, merge.rows.num_lanes(), index, lane));
      const int group_end = (unit / kGroupUnits + 1) * kGroupUnits;
      unit = as_groups_ ? std::min(group_end, end_unit) : unit + 1;
      const bool last = merge.ends && unit == end_unit;
      if (unit != group_end && !last) continue;
      row.Merge(group);
      group.MarkEmpty();
    }
    if (merge.ends) {
      WriteRow(job_, PlaceOf(job_, merge.rows, lane),
               {row.maximum(), row.sum(), row.values(), 1});
    } else {
      std::copy_n(memory, floats, left_ + lane * floats);
    }
  }

  const ReadJob& job_;
  const int dim_;
  float* left_;   // [16, 2 states]: what this wave leaves to the next
  float* taken_;  // [16, 2 states]: what the wave before has left
  float* const begin_;
  float* const end_;
  float* next_;
  bool as_groups_ = false;
  int units_an_item_ = 1;
  int num_items_ = 0;
  int num_merges_ = 0;
};

}  // namespace

void ReadGeneratedRows(const ReadJob& job) { UnitWaves(job).Run(); }

}  // namespace winnow
