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
  if (row_bytes % 16 != 0 || !Aligned(args.x) || !Aligned(part.weight) ||
      !Aligned(part.out) || part.weight.dim(0) % 8 != 0) {
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

// True where `next` continues `part` in memory, weights and outputs both.
bool Continues(const LinearPart& part, const LinearPart& next) {
  const auto bytes = [](const View& view, int64_t elements) {
    return elements * DtypeBytes(view.dtype);
  };
  if (part.bias.empty() != next.bias.empty()) return false;
  if (!part.bias.empty() &&
      part.bias.data + bytes(part.bias, part.bias.dim(0)) != next.bias.data) {
    return false;
  }
  return part.out.dtype == next.out.dtype &&
         part.weight.stride[0] == next.weight.stride[0] &&
         (part.out.stride[0] == next.out.stride[0] || part.out.dim(0) == 1) &&
         part.weight.data + bytes(part.weight,
                                  part.weight.dim(0) * part.weight.stride[0]) ==
             next.weight.data &&
         part.out.data + bytes(part.out, part.out.dim(1)) == next.out.data;
}

LinearPart Joined(LinearPart part, const LinearPart& next) {
  part.weight.shape[0] += next.weight.dim(0);
  part.out.shape[1] += next.out.dim(1);
  if (!part.bias.empty()) part.bias.shape[0] += next.bias.dim(0);
  return part;
}

bool EnqueueByLibrary(CudaQueue& queue, CublasLt& library,
                      const LinearArgs& args, const LinearPart& part) {
  if (!LibraryTakes(args, part)) return false;
  const CublasLtShape shape = {
      .rows = args.x.dim(0),
      .inputs = args.x.dim(1),
      .outputs = part.weight.dim(0),
      .x_stride = args.x.stride[0],
      .weight_stride = part.weight.stride[0],
      .out_stride = part.out.stride[0],
      .dtype = args.x.dtype,
      .out_dtype = part.out.dtype,
      .adds_bias = !part.bias.empty(),
      .batch_invariant = args.batch_invariant,
  };
  return library.Enqueue(
      queue, shape,
      {.x = args.x.data,
       .weight = part.weight.data,
       .bias = part.bias.data,
       .addend = args.residual.empty() ? nullptr : args.residual.data,
       .out = part.out.data,
       .alpha = args.scale});
}

// The part at `next`, with those that continue it; `next` is then behind them.
LinearPart TakePart(std::span<const LinearPart> parts, size_t& next) {
  LinearPart part = parts[next++];
  while (next < parts.size() && Continues(part, parts[next])) {
    part = Joined(part, parts[next++]);
  }
  return part;
}

// Whether the launch of the product, which is one, also does args.norm.
bool NormsInLaunch(const LinearArgs& args, bool gates) {
  if (!LinearFewRowsNorms(args)) return false;
  size_t next = 0;
  const LinearPart first = TakePart(args.parts, next);
  return first.weight.dim(0) > 0 &&
         (gates ||
          (next == args.parts.size() && LinearFewRowsTakes(args, first)));
}

}  // namespace

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
  for (size_t next = 0; next < args.parts.size();) {
    const LinearPart part = TakePart(args.parts, next);
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
