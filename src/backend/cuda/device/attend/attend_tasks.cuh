// The decode rows of an Attend as a line of units that blocks share evenly.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_TASKS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_TASKS_CUH_

#include "backend/cuda/device/attend/attend_lists.cuh"
#include "backend/cuda/device/runtime/lane_sum.cuh"

namespace winnow::device {

// Threads of a block that reads units: a warp a page.
inline constexpr int kUnitThreads = 32 * kAttendUnitPages;

// The rows that a launch reads, generated ones among [first_row, end_row). A
// row's tasks are the q heads of one KV head, or single q heads where each has
// a list of its own. Units stand in the order of rows, tasks, ranks; a unit's
// number in that line is called flat.
struct AttendTasks {
  StepRows rows;
  AttendLists lists;
  int first_row, end_row;
  int num_kv_heads;
  int group_heads;  // q heads a KV head

  __device__ int NumTasks(int row) const {
    return lists.NumLists(row) == lists.num_heads ? lists.num_heads
                                                  : num_kv_heads;
  }
  // The first decode row at or behind `row`, or `end`.
  __device__ int Generated(int row, int end) const {
    while (row < end) {
      const int request = rows.row_to_request[row];
      const int first =
          rows.first_row[request] + rows.num_prefill_rows[request];
      if (row >= first) return row;
      row = first;
    }
    return end;
  }
};

// What one task reads.
struct AttendTask {
  int row;
  int index;      // of the row's tasks
  int num_tasks;  // of the row
  int num_heads;  // q heads [first_head, first_head + num_heads)
  int first_head;
  int kv_head;
  int first_unit, end_unit;
  RowAttention reading;

  __device__ AttendTask(const AttendTasks& tasks, int of_row, int of_index)
      : row(of_row),
        index(of_index),
        num_tasks(tasks.NumTasks(of_row)),
        num_heads(num_tasks == tasks.num_kv_heads ? tasks.group_heads : 1),
        first_head(of_index * num_heads),
        kv_head(num_heads == 1 ? of_index / tasks.group_heads : of_index),
        reading(tasks.rows, tasks.lists, of_row,
                tasks.lists.NumLists(of_row) == 1 ? 0 : of_index) {
    first_unit = reading.first_unit();
    end_unit = reading.end_unit();
  }
  __device__ int num_units() const { return end_unit - first_unit; }
  __device__ int first_group() const { return first_unit / kAttendGroupUnits; }
  __device__ int num_groups() const {
    return (end_unit + kAttendGroupUnits - 1) / kAttendGroupUnits -
           first_group();
  }
  // The first unit of one of its groups, counted from its first.
  __device__ int GroupBegin(int group) const {
    return max((first_group() + group) * kAttendGroupUnits, first_unit);
  }
};

// The next task behind `task`, whatever units it has. REQUIRES: there is one.
__device__ inline AttendTask NextTask(const AttendTasks& tasks,
                                      const AttendTask& task) {
  if (task.index + 1 < task.num_tasks) {
    return AttendTask(tasks, task.row, task.index + 1);
  }
  return AttendTask(tasks, tasks.Generated(task.row + 1, tasks.end_row), 0);
}

// How many units there are, in how many groups, and the most in one of them.
struct UnitCount {
  int units = 0;
  int groups = 0;
  int full_groups = 0;  // of kAttendGroupUnits
  int most = 0;

  __device__ void Add(const AttendTask& task, int times) {
    const int count = task.num_units();
    const int first_full =
        (task.first_unit + kAttendGroupUnits - 1) / kAttendGroupUnits;
    units += times * count;
    groups += times * task.num_groups();
    full_groups +=
        times * max(task.end_unit / kAttendGroupUnits - first_full, 0);
    most = max(most, min(count, kAttendGroupUnits));
  }
  __device__ void Add(const UnitCount& other) {
    units += other.units;
    groups += other.groups;
    full_groups += other.full_groups;
    most = max(most, other.most);
  }
  // Of all lanes of a warp.
  __device__ UnitCount SumOfWarp() const {
    UnitCount sum;
    sum.units = __reduce_add_sync(~0u, units);
    sum.groups = __reduce_add_sync(~0u, groups);
    sum.full_groups = __reduce_add_sync(~0u, full_groups);
    sum.most =
        static_cast<int>(__reduce_max_sync(~0u, static_cast<unsigned>(most)));
    return sum;
  }
  // Whether blocks should take whole groups, or single units. Groups leave one
  // state each. Units share evenly, but those that a block takes from the
  // middle of a group leave a state each, and all blocks end together only to
  // wait for whoever merges these (H200: 10 us of Attend's 142 for 16 requests
  // behind 8K). In the last round of groups not all blocks have one; alone, one
  // reads at 1.7 times the rate that it has among all, so memory is as busy
  // with half of them. That is known of groups that are nearly all alike.
  __device__ bool TakesGroups(int num_blocks) const {
    if (units == 0) return true;
    const bool are_alike = groups * most == units ||
                           16 * full_groups * kAttendGroupUnits >= 15 * units;
    if (!are_alike) return false;
    const int round = num_blocks * most;
    const int last_round = units % round;
    return last_round == 0 || 2 * last_round >= round;
  }
};

// What one block reads: the units, or the groups that begin, among the flat
// numbers [begin, end); `begin` is unit `unit` of a task. Where there are no
// more groups than blocks, flat numbers count groups, and a block has one, or
// every so many blocks none.
struct UnitShare {
  int begin, end;
  bool takes_groups, counts_groups;
  int row, index, unit;
};

// Finds a block's share; the same line for all blocks. Called by all
// kUnitThreads threads. A thread counts a run of rows; of few rows, each has
// several threads, which count some of its tasks. At most `max_units` units may
// be shared out one by one. Made from the step's tables alone, so it may be
// before the kernel waits for what is ahead of it.
class ShareFinder {
 public:
  struct Memory {
    UnitCount counts[kAttendUnitPages];
    UnitShare share;
  };

  __device__ ShareFinder(const AttendTasks& tasks, Memory& memory)
      : tasks_(tasks), memory_(memory) {
    static_assert(kUnitThreads == 1 << kThreadsShift);
    const int thread = static_cast<int>(threadIdx.x);
    const int num_rows = tasks.end_row - tasks.first_row;
    parts_shift_ = max(kThreadsShift - (32 - __clz(num_rows - 1)), 0);
    part_ = thread & ((1 << parts_shift_) - 1);
    const int run = (num_rows + kUnitThreads - 1) / kUnitThreads;
    begin_row_ =
        min(tasks.first_row + (thread >> parts_shift_) * run, tasks.end_row);
    end_row_ = min(begin_row_ + run, tasks.end_row);
    begin_row_ = tasks.Generated(begin_row_, end_row_);
  }

  __device__ UnitShare Find(int max_units) {
    const UnitCount mine = CountRows();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const UnitCount of_warp = mine.SumOfWarp();
    if (threadIdx.x % 32 == 0) memory_.counts[warp] = of_warp;
    __syncthreads();
    UnitCount before, all;  // `before`: of the warps below
    for (int i = 0; i < kAttendUnitPages; ++i) {
      const UnitCount count = memory_.counts[i];
      if (i < warp) before.Add(count);
      all.Add(count);
    }
    UnitShare share = ShareOf(all, max_units);
    if (share.begin == share.end) return share;
    const int count = share.counts_groups ? mine.groups : mine.units;
    const int flat = (share.counts_groups ? before.groups : before.units) +
                     SumOfLanesBefore(count);
    if (flat <= share.begin && share.begin < flat + count) {
      Place(flat, share);
      memory_.share = share;
    }
    __syncthreads();
    return memory_.share;
  }

 private:
  static constexpr int kThreadsShift = 7;  // log2 of kUnitThreads

  // Whether a row's tasks all read alike.
  __device__ bool ReadAlike(int row) const {
    return tasks_.lists.NumLists(row) == 1;
  }
  // This thread's tasks of a row: [FirstTask(n), EndTask(n)) of n.
  __device__ int FirstTask(int num_tasks) const {
    return num_tasks * part_ >> parts_shift_;
  }
  __device__ int EndTask(int num_tasks) const {
    return num_tasks * (part_ + 1) >> parts_shift_;
  }

  __device__ UnitCount CountRows() const {
    UnitCount count;
    for (int row = begin_row_; row < end_row_;
         row = tasks_.Generated(row + 1, end_row_)) {
      const int num_tasks = tasks_.NumTasks(row);
      const int first = FirstTask(num_tasks), end = EndTask(num_tasks);
      if (ReadAlike(row)) {
        count.Add(AttendTask(tasks_, row, 0), end - first);
        continue;
      }
#pragma unroll 1
      for (int i = first; i < end; ++i) {
        count.Add(AttendTask(tasks_, row, i), 1);
      }
    }
    return count;
  }

  // A block's share, but for where it begins.
  __device__ static UnitShare ShareOf(const UnitCount& all, int max_units) {
    const int num_blocks = static_cast<int>(gridDim.x);
    const int block = static_cast<int>(blockIdx.x);
    UnitShare share = {};
    share.takes_groups = all.units > max_units || all.TakesGroups(num_blocks);
    if (share.takes_groups && all.groups <= num_blocks) {
      share.counts_groups = true;
      share.begin = block * all.groups / num_blocks;
      share.end = (block + 1) * all.groups / num_blocks;
      return share;
    }
    const int quotient = all.units / num_blocks, rest = all.units % num_blocks;
    share.begin = block * quotient + min(block, rest);
    share.end = share.begin + quotient + (block < rest ? 1 : 0);
    return share;
  }
  __device__ static int Count(const UnitShare& share, const AttendTask& task) {
    return share.counts_groups ? task.num_groups() : task.num_units();
  }

  // Sets where flat number share.begin stands; this thread's tasks begin at
  // `flat`.
  __device__ void Place(int flat, UnitShare& share) const {
    for (int row = begin_row_; row < end_row_;
         row = tasks_.Generated(row + 1, end_row_)) {
      const int num_tasks = tasks_.NumTasks(row);
      const int end = EndTask(num_tasks);
      int i = FirstTask(num_tasks);
      if (ReadAlike(row)) {  // No need to look at each.
        const int count = Count(share, AttendTask(tasks_, row, 0));
        const int passed = min((share.begin - flat) / count, end - i);
        i += passed;
        flat += passed * count;
      }
      for (; i < end; ++i) {
        const AttendTask task(tasks_, row, i);
        const int count = Count(share, task);
        if (share.begin < flat + count) {
          const int at = share.begin - flat;
          share.row = row;
          share.index = i;
          share.unit =
              share.counts_groups ? task.GroupBegin(at) : task.first_unit + at;
          return;
        }
        flat += count;
      }
    }
  }

  const AttendTasks& tasks_;
  Memory& memory_;
  int parts_shift_, part_;   // log2 of a row's threads, and which of them it is
  int begin_row_, end_row_;  // decode rows begin at the first, if any
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_TASKS_CUH_
