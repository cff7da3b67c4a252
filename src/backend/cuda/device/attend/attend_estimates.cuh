// EstimateAttention: attention of a list's heads over clusters, by a block.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_ESTIMATES_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_ESTIMATES_CUH_

#include "backend/cuda/device/rows/row_sum.cuh"
#include "backend/cuda/device/rows/step_rows.cuh"
#include "backend/cuda/device/runtime/element.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/device/select/select_lanes.cuh"
#include "backend/cuda/device/select/summary_rows.cuh"

namespace winnow::device {

// As in backend/contract/picks.h.
inline constexpr int kUnitClusters = 128;
inline constexpr int kEstimateGroupUnits = 32;
// A thread a cluster where scores are looked at, and a channel elsewhere.
inline constexpr int kEstimateThreads = kUnitClusters;
inline constexpr int kEstimateWarps = kEstimateThreads / 32;
// q heads that share a load.
inline constexpr int kEstimateHeads = 8;
// Of a state: maximum and sum, behind its values.
inline constexpr int kEstimateStateFloats = 2;

struct EstimateArguments {
  StepRows rows;
  Summaries summaries;  // of the launch's selector
  int selector;         // -1: there is none
  bool is_first;        // also for rows of other selectors, without estimates
  const int32_t* estimates;      // [rows, lists, capacity]
  const int32_t* num_estimates;  // [rows, lists]
  const int32_t* num_lists;      // [rows]
  int64_t estimates_row_stride, estimates_list_stride, num_estimates_stride;
  int lists_first_row;  // of the step: whose lists are the first
  int first_row;        // of the launch
  int num_heads, num_kv_heads;
  int k_dim, v_dim;
  const void* q;  // [rows, q_heads, k_dim]
  FloatType q_type;
  int64_t q_row_stride, q_head_stride;
  float scale;
  float* out;  // [rows, q_heads, v_dim]
  int64_t out_row_stride, out_head_stride;
  float* lse;  // [rows, q_heads]
  int64_t lse_stride;
  float* states;     // [rows of the launch, q_heads, max_units, v_dim + 2]
  int32_t* tickets;  // [rows of the launch, q_heads]: units done, zero between
  int max_units;

  __device__ float* State(int row, int head, int unit) const {
    const int64_t lane = int64_t{row - first_row} * num_heads + head;
    return states + (lane * max_units + unit) * (v_dim + kEstimateStateFloats);
  }
};

// Shared memory of a block.
struct EstimateMemory {
  const std::byte* keys[kUnitClusters];
  const std::byte* values[kUnitClusters];
  float log_sizes[kUnitClusters];
  float weights[kEstimateHeads][kUnitClusters];  // scores before
  float maxima[kEstimateHeads];
  float sums[kEstimateHeads];
  bool is_last;
};

// One row's list. Row: the type of what is kept; kElements: numbers of a key
// that a lane loads at once. All threads of the block call each method.
template <typename Row, int kElements>
class EstimateAttention {
 public:
  __device__ EstimateAttention(const EstimateArguments& args, int row, int list,
                               EstimateMemory& memory,
                               float* q)  // f32 [8, k_dim], shared
      : args_(args),
        memory_(memory),
        q_(q),
        row_(row),
        list_(list),
        request_(args.rows.Request(row)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32) {
    const int64_t r = row - args.lists_first_row;
    const int num_lists = args.num_lists[r];
    has_list_ = list < num_lists;
    if (!has_list_) return;
    first_head_ = list * args.num_heads / num_lists;
    end_head_ = (list + 1) * args.num_heads / num_lists;
    kv_head_ = first_head_ / (args.num_heads / args.num_kv_heads);
    count_ = args.num_estimates[r * args.num_estimates_stride + list];
    estimates_ = args.estimates + r * args.estimates_row_stride +
                 list * args.estimates_list_stride;
  }

  __device__ bool is_empty() const { return count_ == 0; }

  // Reads every num_blocks-th unit from `block` on; the block that does the
  // last one merges all, in the order of ranks.
  __device__ void Attend(int block, int num_blocks) {
    if (!has_list_) return;
    if (count_ == 0) {
      if (block == 0) WriteNothing();
      return;
    }
    const int num_units = (count_ + kUnitClusters - 1) / kUnitClusters;
    int num_done = 0;
    for (int unit = block; unit < num_units; unit += num_blocks, ++num_done) {
      AttendUnit(unit);
    }
    if (num_done == 0 || !IsLast(num_done, num_units)) return;
    for (int head = first_head_; head < end_head_; ++head) {
      MergeUnits(head, num_units);
    }
  }

 private:
  using KeyPiece = Piece<Row, kElements>;
  using QueryPiece = Piece<float, kElements>;
  static constexpr int kAtOnce = 4;  // clusters whose loads are under way
  static constexpr int kValuesAtOnce = 8;

  __device__ void WriteNothing() const {
    for (int head = first_head_; head < end_head_; ++head) {
      for (int c = threadIdx.x; c < args_.v_dim; c += kEstimateThreads) {
        args_.out[row_ * args_.out_row_stride + head * args_.out_head_stride +
                  c] = 0.0f;
      }
      if (threadIdx.x == 0) {
        args_.lse[row_ * args_.lse_stride + head] = -INFINITY;
      }
    }
  }

  __device__ void AttendUnit(int unit) {
    const int first = unit * kUnitClusters;
    const int in_unit = min(count_ - first, kUnitClusters);
    FindClusters(first, in_unit);
    for (int head = first_head_; head < end_head_; head += kEstimateHeads) {
      const int num_heads = min(end_head_ - head, kEstimateHeads);
      LoadQueries(head, num_heads);
      __syncthreads();
      ScoreClusters(in_unit);
      __syncthreads();
      WeighClusters(in_unit);
      __syncthreads();
      AddValues(head, num_heads, unit, in_unit);
      __syncthreads();  // Or the next heads' would be told too early.
    }
  }

  // Where the unit's clusters are, a thread each.
  __device__ void FindClusters(int first, int in_unit) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= in_unit) return;
    const Summaries& summaries = args_.summaries;
    const Summaries::ClusterPlace place =
        summaries.Place(request_, kv_head_, estimates_[first + i]);
    memory_.keys[i] = place.segment + summaries.levels[0].offset_bytes +
                      int64_t{place.index} * summaries.levels[0].row_bytes;
    memory_.values[i] = summaries.Value(
        place, int64_t{args_.v_dim} * static_cast<int64_t>(sizeof(Row)));
    const int size =
        static_cast<int>(*summaries.Ends(place)) - summaries.BeginOf(place);
    memory_.log_sizes[i] = logf(static_cast<float>(size));
  }

  // Zeros for heads that there are not.
  __device__ void LoadQueries(int first_head, int num_heads) {
    for (int i = threadIdx.x; i < kEstimateHeads * args_.k_dim;
         i += kEstimateThreads) {
      const int head = i / args_.k_dim, c = i % args_.k_dim;
      q_[i] = head < num_heads
                  ? LoadFloat(args_.q, args_.q_type,
                              row_ * args_.q_row_stride +
                                  (first_head + head) * args_.q_head_stride + c)
                  : 0.0f;
    }
  }

  // A warp has 32 clusters, lanes over channels.
  __device__ void ScoreClusters(int in_unit) {
    const int num_pieces = args_.k_dim / kElements;
    for (int i = 0; i < 32; i += kAtOnce) {
      const int first = warp_ * 32 + i;
      if (first >= in_unit) return;
      float dots[kAtOnce][kEstimateHeads] = {};
      for (int piece = lane_; piece < num_pieces; piece += 32) {
        KeyPiece keys[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          // Behind the last one its key again.
          const int at = min(first + k, in_unit - 1);
          keys[k] = reinterpret_cast<const KeyPiece*>(memory_.keys[at])[piece];
        }
#pragma unroll
        for (int head = 0; head < kEstimateHeads; ++head) {
          const QueryPiece q = *reinterpret_cast<const QueryPiece*>(
              q_ + head * args_.k_dim + piece * kElements);
#pragma unroll
          for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
            for (int e = 0; e < kElements; ++e) {
              dots[k][head] = __fmaf_rn(
                  q.numbers[e], ToFloat(keys[k].numbers[e]), dots[k][head]);
            }
          }
        }
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const float dot = SumOverLanes<kEstimateHeads, 32>(dots[k], lane_);
        const int at = first + k;
        if (lane_ < kEstimateHeads && at < in_unit) {
          memory_.weights[lane_][at] =
              __fmaf_rn(dot, args_.scale, memory_.log_sizes[at]);
        }
      }
    }
  }

  // Scores become weights beside the greatest, a warp a head.
  __device__ void WeighClusters(int in_unit) {
    for (int head = warp_; head < kEstimateHeads; head += kEstimateWarps) {
      float* scores = memory_.weights[head];
      float maximum = -INFINITY;
      for (int i = lane_; i < in_unit; i += 32) {
        maximum = fmaxf(maximum, scores[i]);
      }
      for (int step = 16; step >= 1; step /= 2) {
        maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, step));
      }
      float sum = 0;
      for (int i = lane_; i < in_unit; i += 32) {
        const float weight = expf(scores[i] - maximum);
        scores[i] = weight;
        sum += weight;
      }
      sum = WarpSum(sum);
      if (lane_ == 0) {
        memory_.maxima[head] = maximum;
        memory_.sums[head] = sum;
      }
    }
  }

  // Threads over channels; leaves the unit's states.
  __device__ void AddValues(int first_head, int num_heads, int unit,
                            int in_unit) {
    for (int c = threadIdx.x; c < args_.v_dim; c += kEstimateThreads) {
      float values[kEstimateHeads] = {};
      for (int first = 0; first < in_unit; first += kValuesAtOnce) {
        float of_clusters[kValuesAtOnce];
#pragma unroll
        for (int k = 0; k < kValuesAtOnce; ++k) {
          const int at = min(first + k, in_unit - 1);
          of_clusters[k] =
              ToFloat(reinterpret_cast<const Row*>(memory_.values[at])[c]);
        }
#pragma unroll
        for (int k = 0; k < kValuesAtOnce; ++k) {
          if (first + k >= in_unit) break;
#pragma unroll
          for (int head = 0; head < kEstimateHeads; ++head) {
            values[head] = __fmaf_rn(memory_.weights[head][first + k],
                                     of_clusters[k], values[head]);
          }
        }
      }
#pragma unroll
      for (int head = 0; head < kEstimateHeads; ++head) {
        if (head >= num_heads) break;
        args_.State(row_, first_head + head, unit)[c] = values[head];
      }
    }
    if (static_cast<int>(threadIdx.x) < num_heads) {
      const int head = static_cast<int>(threadIdx.x);
      float* behind = args_.State(row_, first_head + head, unit) + args_.v_dim;
      behind[0] = memory_.maxima[head];
      behind[1] = memory_.sums[head];
    }
  }

  // Counts what this block has done. Whether nothing is left; then what all
  // blocks stored before they counted is seen past L1.
  __device__ bool IsLast(int done, int all) {
    __syncthreads();
    if (threadIdx.x == 0) {
      int32_t* ticket = args_.tickets +
                        int64_t{row_ - args_.first_row} * args_.num_heads +
                        list_;
      __threadfence();
      memory_.is_last = atomicAdd(ticket, done) + done == all;
      if (memory_.is_last) *ticket = 0;
      __threadfence();
    }
    __syncthreads();
    return memory_.is_last;
  }

  // A thread's channel, with its state's maximum and sum.
  struct State {
    float maximum = -INFINITY;
    float sum = 0;
    float value = 0;

    __device__ void Merge(const State& later) {
      if (later.maximum == -INFINITY) return;
      const float greatest = fmaxf(maximum, later.maximum);
      const float keep = maximum == -INFINITY ? 0 : expf(maximum - greatest);
      const float take = expf(later.maximum - greatest);
      maximum = greatest;
      sum = __fmaf_rn(later.sum, take, sum * keep);
      value = __fmaf_rn(later.value, take, value * keep);
    }
  };

  // By rank: units into groups, and those in order.
  __device__ void MergeUnits(int head, int num_units) const {
    for (int c = threadIdx.x; c < args_.v_dim; c += kEstimateThreads) {
      State all, group;
      for (int unit = 0; unit < num_units; ++unit) {
        const float* from = args_.State(row_, head, unit);
        State of_unit;
        of_unit.maximum = __ldcg(from + args_.v_dim);
        of_unit.sum = __ldcg(from + args_.v_dim + 1);
        of_unit.value = __ldcg(from + c);
        group.Merge(of_unit);
        if (unit + 1 == num_units || (unit + 1) % kEstimateGroupUnits == 0) {
          all.Merge(group);
          group = State();
        }
      }
      args_
          .out[row_ * args_.out_row_stride + head * args_.out_head_stride + c] =
          all.value / all.sum;
      if (c == 0) {
        args_.lse[row_ * args_.lse_stride + head] = all.maximum + logf(all.sum);
      }
    }
  }

  const EstimateArguments& args_;
  EstimateMemory& memory_;
  float* const q_;
  const int row_, list_, request_;
  const int lane_, warp_;
  bool has_list_ = false;
  int first_head_ = 0, end_head_ = 0, kv_head_ = 0;
  int count_ = 0;
  const int32_t* estimates_ = nullptr;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_ATTEND_ESTIMATES_CUH_
