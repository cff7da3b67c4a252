// Attend of decode rows on the tensor cores: paged decode attention.
#ifndef WINNOW_BACKEND_CUDA_ATTEND_ATTEND_UNITS_H_
#define WINNOW_BACKEND_CUDA_ATTEND_ATTEND_UNITS_H_

#include "backend/backend.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Whether EnqueueAttendUnits can: bfloat16 q and KV, out of bfloat16 or, of a
// part that MergeStates merges, float32; k_dim = v_dim of 64, 96 or 128, in
// pages at multiples of 16 bytes; at most 16 q heads a KV head.
bool AttendUnitsTakes(const AttendArgs& args, const LayerCache& cache);

// The decode rows of a step, others left alone, by the split rule
// (docs/design.md section 5). A page that several q heads of a KV head read is
// loaded once. Bytes: keys x 4 head_dim a row and KV head (a row and q head,
// where q heads have lists of their own), and for rows that several blocks
// share up to 4 head_dim a unit and q head of states, written and read; flops:
// 4 x keys x head_dim x 8 (16) a row and KV head of up to 8 (16) q heads.
// REQUIRES: AttendUnitsTakes(args, cache); no list has more picks than a
// request has pages; the workspace holds a state a q head and 4,096 tokens of a
// row.
void EnqueueAttendUnits(CudaQueue& queue, const LayerStep& step,
                        const AttendArgs& args, const LayerCache& cache);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_ATTEND_ATTEND_UNITS_H_
