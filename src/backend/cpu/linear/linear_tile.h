// LinearTile: sums of a product on their way to its output.
#ifndef WINNOW_BACKEND_CPU_LINEAR_LINEAR_TILE_H_
#define WINNOW_BACKEND_CPU_LINEAR_LINEAR_TILE_H_

#include "backend/backend.h"

namespace winnow {

// Rows [first_row, first_row + num_rows) and columns [first_column,
// first_column + num_columns) of a part's x W^T, in float32.
struct LinearTile {
  const LinearArgs& args;
  const LinearPart& part;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_column = 0;
  int64_t num_columns = 0;
  float* sums = nullptr;  // [num_rows, num_columns], rows `stride` apart
  int64_t stride = 0;
};

// Adds the bias, scales, adds the residual and rounds once into the output, as
// LinearArgs says. Works in place: `sums` holds the float32 result afterwards.
void FinishTile(const LinearTile& tile);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_LINEAR_LINEAR_TILE_H_
