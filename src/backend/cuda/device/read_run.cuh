// UnitTeam: a block of four warps that reads runs of units, a page a warp.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_READ_RUN_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_READ_RUN_CUH_

#include "backend/cuda/device/read_page.cuh"
#include "backend/cuda/device/read_partials.cuh"

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

  std::byte ring[kReadUnitPages][kSlots][PageHalf<kDim>::kBytes];
  float values[kReadUnitPages][8][kRowFloats];
  float maxima[kReadUnitPages][8];
  float sums[kReadUnitPages][8];
};

// A page's state is made by one warp from nothing; a unit's is made of its four
// pages' by rank; whether it then goes into its group here or elsewhere does
// not change a bit.
template <int kDim, int kTiles>
class UnitTeam {
 public:
  using Memory = UnitMemory<kDim>;
  // Of a head's channels, a thread merges pairs 2 c + 32 i, c = thread % 16.
  using State = ReadState<kDim / 16>;

  __device__ UnitTeam(const UnitsArguments& args, Memory& memory)
      : args_(args),
        memory_(memory),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        ring_(SharedAddress(memory.ring[warp_])) {}

  // Reads units [unit, end_unit) of a task, all of one group; the first one's
  // flat number is `flat`. All threads call it alike.
  __device__ void ReadRun(const ReadTask& task, int unit, int end_unit,
                          int flat) {
    Start(task, unit, end_unit);
    const bool folds = unit == task.first_unit || unit % kReadGroupUnits == 0;
    State group[kTiles];
    for (int i = 0; i < num_units_; ++i) {
      const uint32_t tokens = __shfl_sync(~0u, tokens_, i);
      const uint32_t keys = NextSlot();
      if (tokens != 0) heads_.TakeKeys(keys, tokens, args_.scale_log2);
      const uint32_t values = NextSlot();
      if (tokens != 0) heads_.TakeValues(values);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        Publish(tile, tokens != 0);
        __syncthreads();
        const State of_unit = MergePages(tile);
        __syncthreads();
        if (folds) {
          group[tile].Merge(of_unit);
        } else if (Head(tile) < num_heads_) {
          Store(of_unit, unit + i + 1,
                args_.template UnitState<kDim>(flat + i, Head(tile)));
        }
      }
    }
    const bool whole = unit == task.first_unit && end_unit == task.end_unit;
    if (unit == task.first_unit && threadIdx.x == 0) {
      args_.Base(task) = whole ? kTaskDone : flat;
    }
    if (!folds) return;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (Head(tile) >= num_heads_) continue;
      const int head = task.first_head + Head(tile);
      if (whole) {
        Finish(group[tile], task.row, head);
      } else {
        Store(group[tile], end_unit,
              args_.template GroupState<kDim>(task.row, head,
                                              unit / kReadGroupUnits));
      }
    }
  }

 private:
  using Half = PageHalf<kDim>;

  // The head of the task whose state this thread merges.
  __device__ int Head(int tile) const {
    return tile * 8 + static_cast<int>(threadIdx.x) / 16;
  }

  // Looks up the run's pages, a unit a lane, and starts to fetch the first.
  __device__ void Start(const ReadTask& task, int unit, int end_unit) {
    num_units_ = end_unit - unit;
    num_heads_ = task.num_heads;
    PageTokens page = {0, 0};
    if (lane_ < num_units_) {
      page = task.reading.Ranked((unit + lane_) * kReadUnitPages + warp_);
    }
    tokens_ = page.tokens;
    slice_ = args_.pages.strips;
    if (tokens_ != 0) {
      slice_ = args_.pages.Slice(args_.tasks.rows.Request(task.row), page.page,
                                 task.kv_head);
    }
    num_fetched_ = num_read_ = 0;
    for (int i = 0; i + 1 < Memory::kSlots; ++i) Fetch();
    heads_.LoadQuery(args_.q + task.row * args_.q_row_stride +
                         task.first_head * args_.q_head_stride,
                     args_.q_head_stride, task.num_heads);
  }

  __device__ uint32_t Slot(int index) const {
    return ring_ + static_cast<uint32_t>(index % Memory::kSlots * Half::kBytes);
  }

  // Starts to fetch the next half page; behind the last, or where there is no
  // page, nothing, which counts all the same.
  __device__ void Fetch() {
    const int unit = num_fetched_ / 2;
    if (unit < num_units_) {
      const uint32_t tokens = __shfl_sync(~0u, tokens_, unit);
      const auto slice = reinterpret_cast<const std::byte*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(slice_), unit));
      if (tokens != 0) {
        Half::Fetch(
            Slot(num_fetched_),
            slice + (num_fetched_ % 2 == 0 ? 0 : args_.pages.v_offset_bytes),
            tokens);
      }
    }
    CommitCopies();
    ++num_fetched_;
  }

  // The next half page, once it is there. What is fetched meanwhile takes the
  // place of the one before: no lane reads that any more.
  __device__ uint32_t NextSlot() {
    WaitForCopies<Memory::kSlots - 2>();
    __syncwarp();
    Fetch();
    return Slot(num_read_++);
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
        values[16 * step] = heads_.values[tile][step][column];
        values[16 * step + 8] = heads_.values[tile][step][2 + column];
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
    for (int page = 0; page < kReadUnitPages; ++page) {
      state.maximum = fmaxf(state.maximum, memory_.maxima[page][head]);
    }
    if (state.maximum == -INFINITY) return state;
#pragma unroll
    for (int page = 0; page < kReadUnitPages; ++page) {
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
  const int lane_, warp_;
  const uint32_t ring_;  // this warp's [kSlots, half a page]
  // The run: lane i knows this warp's page of unit i.
  int num_units_ = 0, num_heads_ = 0;
  uint32_t tokens_ = 0;
  const std::byte* slice_ = nullptr;
  int num_fetched_ = 0, num_read_ = 0;  // half pages
  Heads heads_;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_READ_RUN_CUH_
