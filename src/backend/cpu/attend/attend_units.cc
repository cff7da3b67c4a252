#include "backend/cpu/attend/attend_units.h"

#include <algorithm>

#include "backend/contract/picks.h"
#include "backend/cpu/attend/tile_pages.h"
#include "backend/cpu/attend/unit_run.h"
#include "backend/cpu/attend/unit_tasks.h"

namespace winnow {
namespace {

static_assert(kTileKeys == kUnitPicks * kPageTokens);

// Where each unit leaves a state, an item has so many units that a worker gets
// this many items: enough to even out.
constexpr int kItemsAWorker = 16;
// Of whole groups, the last ones are cut into so many items.
constexpr int kItemsAGroup = 8;
// An item has several KV heads where a worker still gets this many.
constexpr int kLeastItemsAWorker = 4;

// Runs the tasks of a step in waves: as many items as the workspace has room
// for, then their merges. A task that a wave cuts in two leaves its states
// (the row's, and the open group's) to the next one.
class UnitWaves {
 public:
  explicit UnitWaves(const AttendJob& job)
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
    UnitTask first, task;
    int num_heads = 0;
    for (TaskCursor tasks(job_); tasks.Next(task);) {
      if (num_heads > 0 && num_heads < max_heads_ &&
          ReadAlike(first, task, num_heads)) {
        ++num_heads;
        continue;
      }
      if (num_heads > 0) AddHeads(first, num_heads);
      first = task;
      num_heads = 1;
    }
    if (num_heads > 0) AddHeads(first, num_heads);
    Flush();
  }

 private:
  int64_t CarryFloats() const {
    return 2 * kUnitRows * SoftmaxState::NumFloats(dim_);
  }

  // Decides what an item is. Bits do not depend on it. (Whole groups where a
  // worker gets four of them, in place of 16: an Attend of lists of 64 picks
  // 241 us in place of 251, of 128 halves 355 in place of 347, and the Select
  // behind it 67 in place of 58, as the worker that ends first sleeps.)
  void ChooseGrain() {
    int64_t num_units = 0, num_groups = 0;
    UnitTask task;
    for (TaskCursor tasks(job_); tasks.Next(task);) {
      num_units += task.end_unit - task.first_unit;
      num_groups += NumGroups(task.first_unit, task.end_unit);
    }
    const int num_items = kItemsAWorker * job_.pool.num_workers();
    as_groups_ = num_groups >= num_items;
    units_an_item_ = as_groups_ ? kGroupUnits / kItemsAGroup
                                : static_cast<int>(num_units / num_items + 1);
    if (ReadsInPlace(job_)) {
      const int64_t num_wanted = kLeastItemsAWorker * job_.pool.num_workers();
      const int64_t num_heads =
          (as_groups_ ? num_groups : std::min<int64_t>(num_units, num_items)) /
          num_wanted;
      max_heads_ =
          static_cast<int>(std::clamp<int64_t>(num_heads, 1, kMaxItemHeads));
    }
    // Every other worker's last group is cut, so that all end together. (Of two
    // workers one was done 0.1 to 0.18 ms of 2.2 before the other, by a trace
    // that is not kept.)
    groups_left_ = num_groups;
    num_cut_groups_ = max_heads_ * ((job_.pool.num_workers() + 1) / 2);
  }

  static int NumGroups(int first_unit, int end_unit) {
    return (end_unit - 1) / kGroupUnits - first_unit / kGroupUnits + 1;
  }

  // The tasks read the same pages, `second` those of the KV head that is
  // `number` behind that of `first`.
  bool ReadAlike(const UnitTask& first, const UnitTask& second,
                 int number) const {
    const auto reads_all = [&](const UnitTask& task) {
      return PicksOf(job_, PlaceOf(job_, task.rows, 0)).every_page;
    };
    AttendRows rows = second.rows;
    rows.kv_head -= number;
    return rows == first.rows && first.first_unit == second.first_unit &&
           first.end_unit == second.end_unit && reads_all(first) &&
           reads_all(second);
  }

  // The first unit of a task of some KV heads that leaves its own state.
  int FirstSingle(const UnitTask& task, int num_heads) const {
    if (!as_groups_) return task.first_unit;
    const int64_t num_whole =
        (groups_left_ - num_cut_groups_ + num_heads - 1) / num_heads;
    const int first_group = task.first_unit / kGroupUnits;
    return static_cast<int>(
        std::clamp<int64_t>((first_group + num_whole) * kGroupUnits,
                            task.first_unit, task.end_unit));
  }

  // How many states a task leaves: no fewer than its items.
  static int64_t NumStates(const UnitTask& task, int first_single) {
    const int64_t num_groups = first_single == task.first_unit
                                   ? 0
                                   : NumGroups(task.first_unit, first_single);
    return num_groups + task.end_unit - first_single;
  }

  // A task for each of some KV heads: together where a wave holds all states.
  void AddHeads(const UnitTask& task, int num_heads) {
    const int first_single = FirstSingle(task, num_heads);
    groups_left_ -=
        int64_t{num_heads} * NumGroups(task.first_unit, task.end_unit);
    const int64_t num_states = NumStates(task, first_single);
    const int64_t floats =
        num_heads * num_states * StateFloats(dim_, task.rows.num_lanes());
    if (num_heads == 1 || end_ - begin_ < floats ||
        num_states > AttendWorkspace::kMaxItems) {
      for (int head = 0; head < num_heads; ++head) {
        UnitTask of_head = task;
        of_head.rows = OfKvHead(task.rows, head);
        Add(of_head, 1, first_single);
      }
      return;
    }
    if (end_ - next_ < floats ||
        std::max<int64_t>(num_items_ + num_states, num_merges_ + num_heads) >
            AttendWorkspace::kMaxItems) {
      Flush();
    }
    Add(task, num_heads, first_single);
  }

  // REQUIRES: of several heads, the wave has room for all states.
  void Add(const UnitTask& task, int num_heads, int first_single) {
    const int64_t state_floats = StateFloats(dim_, task.rows.num_lanes());
    const int64_t head_floats = NumStates(task, first_single) * state_floats;
    bool open = false;  // the last merges are this task's
    for (int unit = task.first_unit; unit < task.end_unit;) {
      const bool as_group = unit < first_single;
      const int group_end = (unit / kGroupUnits + 1) * kGroupUnits;
      int num_units = std::min(task.end_unit, group_end) - unit;
      if (!as_group) num_units = std::min(num_units, units_an_item_);
      const int64_t floats = state_floats * (as_group ? 1 : num_units);
      if (num_items_ == AttendWorkspace::kMaxItems ||
          (!open && num_merges_ + num_heads > AttendWorkspace::kMaxItems) ||
          end_ - next_ < floats) {
        Flush();
        open = false;
      }
      job_.workspace.items()[num_items_++] = {
          task.rows, unit, num_units, next_, num_heads, head_floats, as_group};
      if (!open) {
        for (int head = 0; head < num_heads; ++head) {
          job_.workspace.merges()[num_merges_++] = {
              .rows = OfKvHead(task.rows, head),
              .first_unit = unit,
              .first_single = first_single,
              .partial = next_ + head * head_floats,
              .continues = unit != task.first_unit};
        }
        open = true;
      }
      for (int head = 1; head <= num_heads; ++head) {
        AttendMerge& merge = job_.workspace.merges()[num_merges_ - head];
        merge.num_units += num_units;
        merge.ends = unit + num_units == task.end_unit;
      }
      next_ += floats;
      unit += num_units;
    }
    next_ += (num_heads - 1) * head_floats;
  }

  void Flush() {
    ItemQueue queue(job_.workspace.items(), num_items_);
    job_.pool.ParallelFor(std::min(num_items_, job_.pool.num_workers()),
                          [&](int64_t, int worker) {
                            const AttendItem* item = queue.Take();
                            while (item != nullptr) {
                              item = RunItem(job_, *item, worker, queue);
                            }
                          });
    // Lanes are merged apart where there are fewer merges than workers.
    const int num_parts = std::clamp(
        job_.pool.num_workers() / std::max(num_merges_, 1), 1, kUnitRows);
    job_.pool.ParallelFor(
        int64_t{num_merges_} * num_parts, [&](int64_t i, int worker) {
          const AttendMerge& merge = job_.workspace.merges()[i / num_parts];
          const int part = static_cast<int>(i % num_parts);
          const int num_lanes = merge.rows.num_lanes();
          MergeUnits(merge, part * num_lanes / num_parts,
                     (part + 1) * num_lanes / num_parts, worker);
        });
    num_items_ = num_merges_ = 0;
    next_ = begin_;
    std::swap(left_, taken_);
  }

  // A lane's state in the making: the row's and that of the open group.
  struct LaneState {
    SoftmaxState row, group;
  };

  // Where lane `lane` of `states` is: [lanes, 2 states].
  LaneState LaneStateAt(float* states, int lane) const {
    const int64_t floats = SoftmaxState::NumFloats(dim_);
    states += lane * 2 * floats;
    return {{states, dim_}, {states + floats, dim_}};
  }

  // Merges the units (or groups) of lanes [first, end) in order: into their
  // group, and each group into the row. State by state, as they lie: other
  // workers have left most of them. (Lane by lane, a kilobyte apart, all of a
  // merge took 35 us of 530 that an Attend of lists of 64 picks took on two
  // CPUs of a Zen 4, by a trace that is not kept.)
  void MergeUnits(const AttendMerge& merge, int first, int end,
                  int worker) const {
    const int num_lanes = merge.rows.num_lanes();
    const int64_t lane_floats = 2 * SoftmaxState::NumFloats(dim_);
    float* states =
        job_.workspace.Scratch(worker).Take<float>(num_lanes * lane_floats);
    if (merge.continues) {
      std::copy(taken_ + first * lane_floats, taken_ + end * lane_floats,
                states + first * lane_floats);
    } else {
      for (int lane = first; lane < end; ++lane) {
        const LaneState state = LaneStateAt(states, lane);
        state.row.MarkEmpty();
        state.group.MarkEmpty();
      }
    }
    int unit = merge.first_unit;
    const int end_unit = unit + merge.num_units;
    for (int index = 0; unit < end_unit; ++index) {
      const int group_end = (unit / kGroupUnits + 1) * kGroupUnits;
      unit =
          unit < merge.first_single ? std::min(group_end, end_unit) : unit + 1;
      const bool ends_group =
          unit == group_end || (merge.ends && unit == end_unit);
      for (int lane = first; lane < end; ++lane) {
        const LaneState state = LaneStateAt(states, lane);
        state.group.Merge(StateAt(merge.partial, dim_, num_lanes, index, lane),
                          job_.blend);
        if (!ends_group) continue;
        state.row.Merge(state.group, job_.blend);
        state.group.MarkEmpty();
      }
    }
    if (!merge.ends) {
      std::copy(states + first * lane_floats, states + end * lane_floats,
                left_ + first * lane_floats);
      return;
    }
    for (int lane = first; lane < end; ++lane) {
      const SoftmaxState row = LaneStateAt(states, lane).row;
      WriteRow(job_, PlaceOf(job_, merge.rows, lane),
               {row.maximum(), row.sum(), row.values(), 1});
    }
  }

  const AttendJob& job_;
  const int dim_;
  float* left_;   // [16, 2 states]: what this wave leaves to the next
  float* taken_;  // [16, 2 states]: what the wave before has left
  float* const begin_;
  float* const end_;
  float* next_;
  bool as_groups_ = false;
  int units_an_item_ = 1;       // of those that leave states of their own
  int64_t groups_left_ = 0;     // of all KV heads
  int64_t num_cut_groups_ = 0;  // the last ones, whose units leave states
  int max_heads_ = 1;           // of an item
  int num_items_ = 0;
  int num_merges_ = 0;
};

}  // namespace

void AttendDecodeRows(const AttendJob& job) { UnitWaves(job).Run(); }

}  // namespace winnow
