#include "backend/cpu/attend/merge_states.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/step_rows.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr float kNothingRead = -std::numeric_limits<float>::infinity();

template <typename Out>
void MergeRow(const MergeStatesArgs& args, int64_t row, int64_t head) {
  float greatest = kNothingRead;
  for (const View& lse : args.lses) {
    greatest = std::max(greatest, lse.Row<float>(row)[head]);
  }
  CHECK(greatest != kNothingRead, "row={} head={} reads nothing", row, head);
  float sum = 0;
  for (const View& lse : args.lses) {
    sum += std::exp(lse.Row<float>(row)[head] - greatest);
  }
  Out* out = args.out.Row<Out>(row) + head * args.out.stride[1];
  const auto is_part = [&](const View& lse) {
    return lse.Row<float>(row)[head] != kNothingRead;
  };
  if (std::ranges::count_if(args.lses, is_part) == 1) {
    const auto part = static_cast<size_t>(
        std::ranges::find_if(args.lses, is_part) - args.lses.begin());
    const float* alone =
        args.outs[part].Row<float>(row) + head * args.outs[part].stride[1];
    for (int64_t c = 0; c < args.out.dim(2); ++c) out[c] = Out(alone[c]);
    return;
  }
  for (int64_t c = 0; c < args.out.dim(2); ++c) {
    float value = 0;
    for (size_t i = 0; i < args.outs.size(); ++i) {
      const float lse = args.lses[i].Row<float>(row)[head];
      if (lse == kNothingRead) continue;
      value +=
          std::exp(lse - greatest) / sum *
          (args.outs[i].Row<float>(row) + head * args.outs[i].stride[1])[c];
    }
    out[c] = Out(value);
  }
}

}  // namespace

void MergeRows(const LayerStep& step, const MergeStatesArgs& args,
               ThreadPool& pool) {
  if (args.num_rows == 0) return;
  CheckMergeStates(step, args);
  const StepRows rows(step);
  const int64_t num_heads = args.out.dim(1);
  WithFloatType(args.out.dtype, [&](auto element) {
    pool.ParallelFor(args.num_rows * num_heads, [&](int64_t item, int) {
      const int64_t row = args.first_row + item / num_heads;
      const bool attended =
          rows.is_prompt(row) ? step.has_prefill_rows : step.has_decode_rows;
      if (attended) MergeRow<decltype(element)>(args, row, item % num_heads);
    });
  });
}

}  // namespace winnow
