#include "backend/cpu/rows/rotary_angles.h"

#include <cmath>

#include "backend/cpu/step_rows.h"

namespace winnow {

void RotaryAngleRows(const LayerStep& step, const RotaryAnglesArgs& args,
                     ThreadPool& pool) {
  const StepRows rows(step);
  const int64_t half_dim = args.inverse_frequencies.dim(1);
  CHECK(args.out.dim(0) == step.num_rows && args.out.dim(1) == 2 * half_dim &&
            args.scale.dim(0) == args.inverse_frequencies.dim(0),
        "rows={} inverse_frequencies {} scale {} out {}", step.num_rows,
        ToString(args.inverse_frequencies), ToString(args.scale),
        ToString(args.out));
  pool.ParallelRanges(step.num_rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int request = rows.request(row);
      const auto position = static_cast<float>(rows.position(row));
      const float* frequencies = args.inverse_frequencies.Row<float>(request);
      const float scale = args.scale.As<float>()[request];
      float* out = args.out.Row<float>(row);
      for (int64_t i = 0; i < half_dim; ++i) {
        // The float32 angle is the definition; its functions are then taken
        // in float64, so that they round once.
        const double angle = position * frequencies[i];
        out[i] = static_cast<float>(std::cos(angle)) * scale;
        out[half_dim + i] = static_cast<float>(std::sin(angle)) * scale;
      }
    }
  });
}

}  // namespace winnow
