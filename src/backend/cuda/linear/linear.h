// Linear on CUDA: products by cuBLASLt, and by a plain kernel where the
// library's conditions are not met.
#ifndef WINNOW_BACKEND_CUDA_LINEAR_LINEAR_H_
#define WINNOW_BACKEND_CUDA_LINEAR_LINEAR_H_

#include "backend/backend.h"
#include "backend/cuda/linear/cublaslt.h"
#include "backend/cuda/runtime/cuda_queue.h"

namespace winnow {

// Backend::Linear. A part is one product. Bytes: weights once, x and out;
// flops: 2 x rows x in x out.
void EnqueueLinear(CudaQueue& queue, CublasLt& library, const LinearArgs& args);

// The operands of args.gated_act: two parts, or the halves of a joined one.
struct GatedParts {
  LinearPart gate, up;
};
// REQUIRES: args.gated_act, and CheckLinear's preconditions.
GatedParts GatedPartsOf(const LinearArgs& args);

// One part of at most 16 rows of 16-bit numbers, on tensor cores that wait for
// the weights: what decode steps are made of. `out` may be the residual.
bool LinearFewRowsTakes(const LinearArgs& args, const LinearPart& part);
// Does args.norm too, where there is one. REQUIRES: LinearFewRowsNorms then.
void EnqueueLinearFewRows(CudaQueue& queue, const LinearArgs& args,
                          const LinearPart& part);
// Whether its launch also norms: rows that every block has room for.
bool LinearFewRowsNorms(const LinearArgs& args);
// Gate, up and args.gated_act in one launch; args.norm as above.
bool LinearFewRowsGates(const LinearArgs& args);
void EnqueueLinearFewRowsGated(CudaQueue& queue, const LinearArgs& args);

// One part of 17 to 64 rows of bfloat16: tiles of weights meet all rows, and a
// cluster of blocks splits the inputs. `out` may be the residual.
bool LinearSplitTakes(const LinearArgs& args, const LinearPart& part);
void EnqueueLinearSplit(CudaQueue& queue, const LinearArgs& args,
                        const LinearPart& part);
// Gate, up and args.gated_act in one launch.
bool LinearSplitGates(const LinearArgs& args);
void EnqueueLinearSplitGated(CudaQueue& queue, const LinearArgs& args);

// One part by a warp an element, in one order over `in`: any sizes, strides
// and alignments. What parts with bias in float32, or odd sizes, fall to.
void EnqueueLinearRows(CudaQueue& queue, const LinearArgs& args,
                       const LinearPart& part);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CUDA_LINEAR_LINEAR_H_
