// UnitTeam: a block of four warps that reads runs of units, a page a warp.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_RUN_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_RUN_CUH_

#include "backend/cuda/device/attend/attend_page.cuh"
#include "backend/cuda/device/attend/attend_partials.cuh"
#include "backend/cuda/device/runtime/dependent_launch.cuh"

namespace winnow::device {

// What a block keeps in shared memory. A warp has a ring of slots that each
// hold half a page (its keys, then its values): while one is read, the others
// are on their way. An SM asks for 96 to 144 KiB at a time, several times what
// its share of the memory's rate takes to arrive.
template <int kDim>
struct UnitMemory {
  static constexpr int kSlots = kDim == 128 ? 3 : 4;
  static constexpr int kBlocksAnSm = kDim == 64 ? 3 : 2;
  // Rows of values start 4 banks apart: the eight channels (g) and four heads
  // (2 t) that a warp writes at a time fall into 32 banks, as 8 t + g.
  static constexpr int kRowFloats = kDim + 4;

  std::byte ring[kAttendUnitPages][kSlots][PageHalf<kDim>::kBytes];
  float values[kAttendUnitPages][8][kRowFloats];
  float maxima[kAttendUnitPages][8];
  float sums[kAttendUnitPages][8];
};

// Consecutive units of one task and group: [unit, end_unit), the first one's
// flat number, and lane i's page of unit + i. No units: behind the last run.
struct UnitRun {
  int row = 0, index = 0;  // of the task
  int unit = 0, end_unit = 0;
  int flat = 0;
  uint32_t tokens = 0;               // of the page
  bool reads_alone = false;          // no other list of the row has the pages
  const std::byte* slice = nullptr;  // of the page, where it has tokens
  int page = 0;                      // where its pieces may lie apart

  __device__ int num_units() const { return end_unit - unit; }
};

// A page's state is made by one warp from nothing; a unit's is made of its four
// pages' by rank; whether it then goes into its group here or elsewhere does
// not change a bit; nor does where the pieces of a page lie (kSlots). The block
// that does a group's last unit folds what others have left of the group, the
// one that completes a task's last group merges them: always in the order of
// ranks. (A launch of its own for it took 5 to 8 us a layer of Llama-3.1-8B's
// shape at batch 1.)
template <int kDim, int kTiles, bool kSlots>
class UnitTeam {
 public:
  using Memory = UnitMemory<kDim>;
  // Of a head's channels, a thread merges pairs 2 c + 32 i, c = thread % 16.
  using State = AttendState<kDim / 16>;

  // `is_last` lies in shared memory.
  __device__ UnitTeam(const UnitsArguments& args, Memory& memory, bool& is_last)
      : args_(args),
        memory_(memory),
        is_last_(is_last),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        ring_(SharedAddress(memory.ring[warp_])) {}

  // Reads a share, run by run; the next run's pages are looked up, and their
  // first on their way, while one is read. All threads call it alike. Waits
  // for what is ahead of the kernel before it looks at a page.
  // REQUIRES: the share is not empty.
  __device__ void ReadShare(const UnitShare& share) {
    Place at = {share.row, share.index, share.unit, share.begin};
    if (share.takes_groups) {
      // The group that the share begins in is another block's.
      const AttendTask task(args_.tasks, share.row, share.index);
      if (at.unit != task.first_unit) {
        at.unit = min(GroupEnd(at.unit - 1), task.end_unit);
        at.flat += at.unit - share.unit;
      }
    }
    next_ = RunAt(at, share);
    if (args_.tasks.lists.picks == nullptr) LoadFirstIntoL2();
    WaitForPrior();
    // One piece of code for the first run and those behind it: a step runs
    // thousands of kernels' instructions once a layer, and their way from
    // memory is what few units take.
#pragma unroll 1
    while (next_.num_units() > 0) {
      run_ = next_;
      next_ = UnitRun();
      Load(Memory::kSlots);
      next_ = RunAt(
          {run_.row, run_.index, run_.end_unit, run_.flat + run_.num_units()},
          share);
      AttendRun();
      num_fetched_ -= 2 * run_.num_units();
      num_read_ -= 2 * run_.num_units();
    }
  }

 private:
  using Half = PageHalf<kDim>;

  // The unit behind the group of `unit`.
  static __device__ int GroupEnd(int unit) {
    return (unit / kAttendGroupUnits + 1) * kAttendGroupUnits;
  }

  // A task's unit, or the next task's first, and its flat number.
  struct Place {
    int row, index, unit, flat;
  };

  // The run that begins at a place.
  __device__ UnitRun RunAt(Place at, const UnitShare& share) const {
    UnitRun run;
    if (at.flat >= share.end) return run;
    AttendTask task(args_.tasks, at.row, at.index);
    if (at.unit >= task.end_unit) {
      task = NextTask(args_.tasks, task);
      at.unit = task.first_unit;
    }
    run.row = task.row;
    run.index = task.index;
    run.unit = at.unit;
    run.end_unit = min(GroupEnd(at.unit), task.end_unit);
    if (!share.takes_groups) {
      run.end_unit = min(run.end_unit, at.unit + share.end - at.flat);
    }
    run.flat = at.flat;
    // Lists of q heads may name a page that another head's does.
    run.reads_alone = task.num_heads == args_.tasks.group_heads;
    if (lane_ >= run.num_units()) return run;
    const PageTokens page =
        task.reading.Ranked((at.unit + lane_) * kAttendUnitPages + warp_);
    run.tokens = page.tokens;
    if (page.tokens == 0) return run;
    if constexpr (kSlots) {
      run.page = page.page;
      return run;
    }
    run.slice = args_.pages.Slice(args_.tasks.rows.Request(task.row), page.page,
                                  task.kv_head);
    return run;
  }

  // The head of the task whose state this thread merges.
  __device__ int Head(int tile) const {
    return tile * 8 + static_cast<int>(threadIdx.x) / 16;
  }

  __device__ void AttendRun() {
    const AttendTask task(args_.tasks, run_.row, run_.index);
    num_heads_ = task.num_heads;
    heads_.LoadQuery(args_.q + task.row * args_.q_row_stride +
                         task.first_head * args_.q_head_stride,
                     args_.q_head_stride, task.num_heads);
    const bool begins = run_.unit == task.first_unit;
    const bool folds = begins || run_.unit % kAttendGroupUnits == 0;
    const bool whole = begins && run_.end_unit == task.end_unit;
    State group[kTiles];
    for (int i = 0; i < run_.num_units(); ++i) {
      const uint32_t tokens = __shfl_sync(~0u, run_.tokens, i);
      const uint32_t keys = NextSlot();
      if (tokens != 0) heads_.TakeKeys(keys, tokens, args_.scale_log2);
      const uint32_t values = NextSlot();
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        // Tile by tile: two tiles' values do not fit the registers beside the
        // rest, and reading values twice from shared memory costs little.
        if (tokens != 0) heads_.TakeValues(tile, values);
        Publish(tile, tokens != 0);
        __syncthreads();
        const State of_unit = MergePages(tile);
        __syncthreads();
        if (folds) {
          group[tile].Merge(of_unit);
        } else if (Head(tile) < num_heads_) {
          Store(of_unit, run_.unit + i + 1,
                args_.template UnitState<kDim>(run_.flat + i, Head(tile)));
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (!folds || Head(tile) >= num_heads_) continue;
      const int head = task.first_head + Head(tile);
      if (whole) {
        Finish(group[tile], task.row, head);
      } else {
        Store(group[tile], run_.end_unit,
              args_.template GroupState<kDim>(task.row, head,
                                              run_.unit / kAttendGroupUnits));
      }
    }
    if (!whole) Settle(task);
  }

  // Once a run's states are stored: does what nobody is left to do. First the
  // units of the group are merged, then the groups of the task.
  __device__ void Settle(const AttendTask& task) {
    const int first_group = task.first_unit / kAttendGroupUnits;
    const int num_groups =
        (task.end_unit + kAttendGroupUnits - 1) / kAttendGroupUnits -
        first_group;
    const int group = run_.unit / kAttendGroupUnits;
    const int end_unit = min(GroupEnd(run_.unit), task.end_unit);
    const int num_units =
        end_unit - max(group * kAttendGroupUnits, task.first_unit);
    int32_t* tickets = args_.Tickets(task);
#pragma unroll 1
    for (bool of_units = run_.num_units() < num_units;; of_units = false) {
      const bool is_last =
          of_units ? IsLast(tickets + group, run_.num_units(), num_units)
                   : IsLast(tickets + args_.max_groups, 1, num_groups);
      if (!is_last) return;
      const bool ends = !of_units || num_groups == 1;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int head = task.first_head + Head(tile);
        float* begun = nullptr;
        State merged;
        if (Head(tile) < num_heads_) {
          begun = args_.template GroupState<kDim>(
              task.row, head, of_units ? group : first_group);
          merged = Load(begun);
          const float* rest = begun + kStateFloats<kDim>;
          int64_t stride = kStateFloats<kDim>;
          int count = num_groups - 1;
          if (of_units) {
            // What the block with the group's first unit made goes up to here.
            const int unit = __float_as_int(__ldcg(begun + kDim + 2));
            rest = args_.template UnitState<kDim>(run_.flat + unit - run_.unit,
                                                  Head(tile));
            stride *= args_.tasks.group_heads;
            count = end_unit - unit;
          }
          MergeInto(merged, rest, stride, count);
        }
        // All of a head's lanes have read what one of them overwrites.
        __syncwarp();
        if (begun == nullptr) continue;
        if (ends) {
          Finish(merged, task.row, head);
        } else {
          Store(merged, end_unit, begun);
        }
      }
      if (ends) return;
    }
  }

  // Counts what this block has done of `all`. Whether nothing is left; then
  // what all blocks stored before they counted is seen past L1.
  __device__ bool IsLast(int32_t* ticket, int done, int all) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      is_last_ = atomicAdd(ticket, done) + done == all;
      if (is_last_) *ticket = 0;
      __threadfence();
    }
    __syncthreads();
    return is_last_;
  }

  // Merges `count` states that stand `stride` floats apart, in their order.
  __device__ void MergeInto(State& state, const float* from, int64_t stride,
                            int count) const {
    constexpr int kAtOnce = 8;  // loads under way together
#pragma unroll 1
    for (int first = 0; first < count; first += kAtOnce) {
      State later[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i < count) later[i] = Load(from + (first + i) * stride);
      }
      // Those behind the last are empty.
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) state.Merge(later[i]);
    }
  }

  // Asks for the first unit's pages, whatever is written to them meanwhile.
  __device__ void LoadFirstIntoL2() const {
    const auto slice = reinterpret_cast<const std::byte*>(
        __shfl_sync(~0u, reinterpret_cast<unsigned long long>(next_.slice), 0));
    if (slice == nullptr) return;
    constexpr int kLineBytes = 128;
    for (int at = lane_ * kLineBytes; at < Half::kBytes;
         at += 32 * kLineBytes) {
      LoadIntoL2(slice + at);
      LoadIntoL2(slice + args_.pages.v_offset_bytes + at);
    }
  }

  // Starts to fetch half pages, from the run's and the next one's, until `end`
  // of the run's have been. One without a page counts all the same.
  __device__ void Load(int end) {
    while (num_fetched_ < end) {
      const int unit = num_fetched_ / 2;
      const int of_next = unit - run_.num_units();
      const bool is_next = of_next >= 0;
      if (of_next >= next_.num_units()) return;
      // By value: what is addressed would leave the registers.
      const uint32_t tokens = __shfl_sync(
          ~0u, is_next ? next_.tokens : run_.tokens, is_next ? of_next : unit);
      const int64_t offset =
          num_fetched_ % 2 == 0 ? 0 : args_.pages.v_offset_bytes;
      const auto to = ring_ + static_cast<uint32_t>(load_slot_ * Half::kBytes);
      if constexpr (kSlots) {
        const int page = __shfl_sync(~0u, is_next ? next_.page : run_.page,
                                     is_next ? of_next : unit);
        if (tokens != 0) {
          const AttendTask task(args_.tasks, is_next ? next_.row : run_.row,
                                is_next ? next_.index : run_.index);
          LoadPieces(to, task, page, offset, tokens);
        }
      } else {
        const auto address = reinterpret_cast<unsigned long long>(
            is_next ? next_.slice : run_.slice);
        const auto slice = reinterpret_cast<const std::byte*>(
            __shfl_sync(~0u, address, is_next ? of_next : unit));
        if (tokens != 0) {
          Half::Load(to, slice + offset, tokens,
                     is_next ? next_.reads_alone : run_.reads_alone);
        }
      }
      CommitCopies();
      ++num_fetched_;
      load_slot_ = load_slot_ + 1 == Memory::kSlots ? 0 : load_slot_ + 1;
    }
  }

  // The same half of a page whose pieces lie anywhere: lane i finds piece i.
  __device__ void LoadPieces(uint32_t to, const AttendTask& task, int page,
                             int64_t offset, uint32_t tokens) const {
    const int pieces = args_.pages.slots.pieces;
    unsigned long long address = 0;
    if (lane_ < pieces) {
      const PiecePlace place = args_.pages.Find(
          args_.tasks.rows.Request(task.row), page, task.kv_head, lane_);
      // Where the page's first token would be, stood all of it there.
      address = reinterpret_cast<unsigned long long>(place.slice) +
                static_cast<unsigned long long>(
                    offset + static_cast<int64_t>(place.index - lane_) *
                                 (Half::kBytes / pieces));
    }
    Half::LoadApart(to, address, kAttendPageTokens / pieces, tokens);
  }

  // The next half page, once it is there: all groups but those committed after
  // its own have landed. What is fetched meanwhile takes the place of the one
  // before: no lane reads that any more.
  __device__ uint32_t NextSlot() {
    static_assert(Memory::kSlots <= 4);
    const int num_behind = num_fetched_ - num_read_ - 1;
    if (num_behind >= 2) {
      WaitForCopies<2>();
    } else if (num_behind == 1) {
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncwarp();
    Load(num_read_ + Memory::kSlots);
    ++num_read_;
    const int slot = read_slot_;
    read_slot_ = slot + 1 == Memory::kSlots ? 0 : slot + 1;
    return ring_ + static_cast<uint32_t>(slot * Half::kBytes);
  }

  // Tells the block this warp's state of eight heads.
  __device__ void Publish(int tile, bool has_page) {
    const int g = lane_ / 4, t = lane_ % 4;
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      const int head = 2 * t + column;
      if (tile * 8 + head >= num_heads_) continue;
      if (g == 0) {
        memory_.maxima[warp_][head] =
            has_page ? heads_.maximum[tile][column] : -INFINITY;
        memory_.sums[warp_][head] = heads_.sum[tile][column];
      }
      if (!has_page) continue;
      float* values = memory_.values[warp_][head] + g;
#pragma unroll
      for (int step = 0; step < Heads::kSteps; ++step) {
        values[16 * step] = heads_.values[step][column];
        values[16 * step + 8] = heads_.values[step][2 + column];
      }
    }
  }

  // The unit's state of this thread's head and channels.
  __device__ State MergePages(int tile) const {
    State state;
    if (Head(tile) >= num_heads_) return state;
    const int head = static_cast<int>(threadIdx.x) / 16;
    const int channel = static_cast<int>(threadIdx.x) % 16 * 2;
#pragma unroll
    for (int page = 0; page < kAttendUnitPages; ++page) {
      state.maximum = fmaxf(state.maximum, memory_.maxima[page][head]);
    }
    if (state.maximum == -INFINITY) return state;
#pragma unroll
    for (int page = 0; page < kAttendUnitPages; ++page) {
      const float maximum = memory_.maxima[page][head];
      if (maximum == -INFINITY) continue;
      const float weight = WeightOf(maximum, state.maximum);
      state.sum = __fmaf_rn(memory_.sums[page][head], weight, state.sum);
      const float* values = memory_.values[page][head] + channel;
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) {
        const float2 pair = *reinterpret_cast<const float2*>(values + 32 * i);
        state.values[2 * i] = __fmaf_rn(pair.x, weight, state.values[2 * i]);
        state.values[2 * i + 1] =
            __fmaf_rn(pair.y, weight, state.values[2 * i + 1]);
      }
    }
    return state;
  }

  // What Store has left.
  __device__ State Load(const float* from) const {
    const int pair = static_cast<int>(threadIdx.x) % 16;
    State state;
#pragma unroll
    for (int i = 0; i < kDim / 32; ++i) {
      const float2 values =
          __ldcg(reinterpret_cast<const float2*>(from + 2 * pair + 32 * i));
      state.values[2 * i] = values.x;
      state.values[2 * i + 1] = values.y;
    }
    const float2 weight = __ldcg(reinterpret_cast<const float2*>(from + kDim));
    state.maximum = weight.x;
    state.sum = weight.y;
    return state;
  }

  __device__ void Store(const State& state, int end_unit, float* to) const {
    const int pair = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
    for (int i = 0; i < kDim / 32; ++i) {
      *reinterpret_cast<float2*>(to + 2 * pair + 32 * i) =
          make_float2(state.values[2 * i], state.values[2 * i + 1]);
    }
    if (pair != 0) return;
    *reinterpret_cast<float4*>(to + kDim) =
        make_float4(state.maximum, state.sum, __int_as_float(end_unit), 0);
  }

  __device__ void Finish(const State& state, int row, int head) const {
    const int pair = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i) {
      args_.WriteOut(row, head, 2 * pair + 32 * (i / 2) + i % 2,
                     __fdiv_rn(state.values[i], state.sum));
    }
    if (pair == 0) args_.WriteLse(row, head, state.maximum, state.sum);
  }

  using Heads = PageHeads<kDim, kTiles>;

  const UnitsArguments& args_;
  Memory& memory_;
  bool& is_last_;  // whether this block was the last to count itself
  const int lane_, warp_;
  const uint32_t ring_;  // this warp's [kSlots, half a page]
  UnitRun run_, next_;
  int num_heads_ = 0;                   // of the run's task
  int num_fetched_ = 0, num_read_ = 0;  // half pages, from the run's first on
  int load_slot_ = 0, read_slot_ = 0;
  Heads heads_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_RUN_CUH_
