// EstimateAttention: Attend over clusters, a key each.
#ifndef WINNOW_BACKEND_CPU_ATTEND_ATTEND_ESTIMATES_H_
#define WINNOW_BACKEND_CPU_ATTEND_ATTEND_ESTIMATES_H_

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/isa/vector_kernels.h"
#include "backend/cpu/step_rows.h"
#include "base/thread_pool.h"

namespace winnow {

// Owns each worker's scratch; borrows the pool. Called by the backend's thread.
//
// A cluster's score is scale q k + log(size): an inner product with a channel
// more, so that attention's own kernel reads clusters. 128 of a list make a
// unit, and units merge as those of picks do.
class EstimateAttention {
 public:
  // The truth, or by a set's kernels where `kernels` is not null. REQUIRES:
  // kernels and pool outlive this.
  EstimateAttention(const VectorKernels* kernels, ThreadPool& pool)
      : kernels_(kernels),
        pool_(pool),
        scratch_(static_cast<size_t>(pool.num_workers())) {}

  // The op, of one source, which is kEstimates.
  void Attend(const LayerStep& step, const AttendArgs& args,
              const LayerCache& cache);

 private:
  struct Scratch {
    int64_t width = 0;          // of a key: k_dim + pad
    std::vector<float> keys;    // [128, width]: the log of its size at k_dim
    std::vector<float> values;  // [128, v_dim]
    std::vector<float> q;       // [kUnitRows, k_dim + pad]
    std::vector<float> states;  // of units, groups and rows
    std::vector<float> kernel;
    // By size: its log, divided by log_scale; NaN: not asked for yet.
    std::vector<float> logs;
    float log_scale = 0;
  };
  // The q heads of one row that share a list.
  struct Heads {
    const StepRows& rows;
    const AttendArgs& args;
    const LayerCache& cache;
    int64_t row = 0;
    int64_t list = 0;
    int64_t first_head = 0;
    int num_heads = 0;  // at most kUnitRows
  };

  void ReadHeads(const Heads& heads, Scratch& scratch) const;
  // Widens clusters [first, first + count) of the list, and fetches ahead.
  void Gather(const Heads& heads, int64_t first, int64_t count,
              Scratch& scratch) const;
  // to[i] = from[i] for i < count.
  void Widen(Dtype dtype, const std::byte* from, int64_t count,
             float* to) const;
  // Leaves the state of a unit of each head: SoftmaxState's floats.
  void AttendUnit(const Heads& heads, int64_t count, float* states,
                  Scratch& scratch) const;
  void AttendUnitScalar(const Heads& heads, int64_t count, float* states,
                        Scratch& scratch) const;
  static void Write(const Heads& heads, int index, const float* state);
  // Channels that a key has here.
  int64_t Width(const LayerCache& cache) const;

  const VectorKernels* kernels_;
  ThreadPool& pool_;
  std::vector<Scratch> scratch_;  // a worker
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_ATTEND_ESTIMATES_H_
