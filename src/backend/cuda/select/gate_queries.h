// The queries of learned gates on CUDA, the first part of Select.
#ifndef WINNOW_BACKEND_CUDA_SELECT_GATE_QUERIES_H_
#define WINNOW_BACKEND_CUDA_SELECT_GATE_QUERIES_H_

#include "backend/cuda/select/select_scores.h"

namespace winnow {

// Whether the selector scores with queries of its own, one a KV head.
bool HasGate(const LayerSelector& selector);

// Makes the queries of the wave's rows that a selector with gates scores, in
// wave.gate_queries. Bytes: a KV head's weights of 4 group_heads k_dim^2 for
// every kGateRows rows of the wave; flops: 2 group_heads k_dim^2 a (row, KV
// head).
void EnqueueGateQueries(CudaQueue& queue, const LayerStep& step,
                        const SelectArgs& args, const LayerCache& cache,
                        const SelectWave& wave, size_t selector);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_SELECT_GATE_QUERIES_H_
