// The first half of Select on CUDA: scores of summary rows.
#ifndef WINNOW_BACKEND_CUDA_SELECT_SELECT_SCORES_H_
#define WINNOW_BACKEND_CUDA_SELECT_SELECT_SCORES_H_

#include "backend/backend.h"
#include "backend/cuda/device/select/select_scores.cuh"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Consecutive rows of a step whose scores fit the workspace.
struct SelectWave {
  int first_row = 0;  // of the step
  int num_rows = 0;
  device::ScoreMemory memory = {};
  float* gate_queries = nullptr;  // [rows of the wave, kv_heads, k_dim]
};

// Scores one selector's summaries for the wave's rows that need them, and
// reduces them to a plane a list: scores of level 0, and of the level that
// normalises what a log-sum-exp is made of. One launch where both levels are of
// one shape, and one that maps and reduces where a list has several planes.
// Bytes: each summary row once a (row of the step, KV head); flops: 2 x rows x
// width a q head.
void EnqueueScores(CudaQueue& queue, const LayerStep& step,
                   const SelectArgs& args, const LayerCache& cache,
                   const SelectWave& wave, size_t selector);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_SELECT_SCORES_H_
