#include "backend/cuda/linear/linear.h"

#include "backend/cuda/rows/row_ops.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

bool Aligned(const View& view) {
  constexpr auto kAlignment = 16;
  const int64_t row_bytes = view.stride[0] * DtypeBytes(view.dtype);
  return reinterpret_cast<uintptr_t>(view.data) % kAlignment == 0 &&
         (view.dim(0) <= 1 || row_bytes % kAlignment == 0);
}

// What the library takes well: 16-byte rows, and a bias of the output's type
// that is not to be scaled.
bool LibraryTakes(const LinearArgs& args, const LinearPart& part) {
  const int64_t row_bytes = args.x.dim(1) * DtypeBytes(args.x.dtype);
  if (row_bytes % 16 != 0 || !Aligned(args.x) || !Aligned(part.weight.codes) ||
      !Aligned(part.out) || part.weight.rows % 8 != 0) {
    return false;
  }
  if (!args.residual.empty() &&
      (!Aligned(args.residual) ||
       (args.residual.stride[0] != part.out.stride[0] &&
        args.residual.dim(0) > 1))) {
    return false;
  }
  return part.bias.empty() ||
         (part.bias.dtype == part.out.dtype && args.scale == 1.0f);
}

bool EnqueueByLibrary(CudaQueue& queue, CublasLt& library,
                      const LinearArgs& args, const LinearPart& part) {
  if (!LibraryTakes(args, part)) return false;
  const CublasLtShape shape = {
      .rows = args.x.dim(0),
      .inputs = args.x.dim(1),
      .outputs = part.weight.rows,
      .x_stride = args.x.stride[0],
      .weight_stride = part.weight.codes.stride[0],
      .out_stride = part.out.stride[0],
      .dtype = args.x.dtype,
      .out_dtype = part.out.dtype,
      .adds_bias = !part.bias.empty(),
      .batch_invariant = args.batch_invariant,
  };
  return library.Enqueue(
      queue, shape,
      {.x = args.x.data,
       .weight = part.weight.codes.data,
       .bias = part.bias.data,
       .addend = args.residual.empty() ? nullptr : args.residual.data,
       .out = part.out.data,
       .alpha = args.scale});
}

// Outputs [first, first + count) of a part.
LinearPart Outputs(const LinearPart& part, int64_t first, int64_t count) {
  return {.weight = part.weight.Rows(first, count),
          .bias = part.bias.empty() ? View{} : part.bias.Slice(first, count),
          .out = part.out.Columns(first, count)};
}

// Whether the launch of the product, which is one, also does args.norm.
bool NormsInLaunch(const LinearArgs& args, bool gates) {
  const LinearPart& first = args.parts[0];
  return LinearFewRowsNorms(args) && first.weight.rows > 0 &&
         (gates || (args.parts.size() == 1 && LinearFewRowsTakes(args, first)));
}

}  // namespace

GatedParts GatedPartsOf(const LinearArgs& args) {
  const LinearPart& first = args.parts[0];
  if (args.parts.size() == 2) return {.gate = first, .up = args.parts[1]};
  const int64_t size = args.gated_act->gate.dim(1);
  return {.gate = Outputs(first, 0, size), .up = Outputs(first, size, size)};
}

void EnqueueLinear(CudaQueue& queue, CublasLt& library,
                   const LinearArgs& args) {
  CheckLinear(args);
  if (args.x.dim(0) == 0) return;
  const bool gates = LinearFewRowsGates(args);
  LinearArgs product = args;
  if (args.norm && !NormsInLaunch(args, gates)) {
    EnqueueRmsNorm(queue, *args.norm);
    product.norm.reset();
  }
  if (gates) return EnqueueLinearFewRowsGated(queue, product);
  if (LinearSplitGates(product)) {
    return EnqueueLinearSplitGated(queue, product);
  }
  for (const LinearPart& part : args.parts) {
    if (LinearFewRowsTakes(product, part)) {
      EnqueueLinearFewRows(queue, product, part);
    } else if (LinearSplitTakes(product, part)) {
      EnqueueLinearSplit(queue, product, part);
    } else if (!EnqueueByLibrary(queue, library, product, part)) {
      EnqueueLinearRows(queue, product, part);
    }
  }
  if (args.gated_act) EnqueueGatedAct(queue, *args.gated_act);
}

}  // namespace winnow
