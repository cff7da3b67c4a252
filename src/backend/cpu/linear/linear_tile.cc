#include "backend/cpu/linear/linear_tile.h"

#include <algorithm>

#include "backend/cpu/isa/float_types.h"

namespace winnow {
namespace {

// Every loop below is over one row of a tile, which stands in the first-level
// cache, and does one thing: so each becomes vector instructions.

void AddBias(const LinearTile& tile, float* sums) {
  WithFloatType(tile.part.bias.dtype, [&](auto element) {
    using T = decltype(element);
    const T* bias = tile.part.bias.As<T>() + tile.first_column;
    for (int64_t i = 0; i < tile.num_columns; ++i) {
      sums[i] += static_cast<float>(bias[i]);
    }
  });
}

// The rounding of BFloat16(float) without a branch.
void StoreBFloat16(const float* sums, int64_t count, BFloat16* out) {
  for (int64_t i = 0; i < count; ++i) {
    const auto word = std::bit_cast<uint32_t>(sums[i]);
    const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    const uint32_t nan = (word >> 16) | 0x0040u;
    out[i].bits = static_cast<uint16_t>(
        (word & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

void Store(const LinearTile& tile, int64_t row, const float* sums) {
  const View& out = tile.part.out;
  const int64_t count = tile.num_columns;
  if (out.dtype == Dtype::kFloat32) {
    std::copy_n(sums, count, out.Row<float>(row) + tile.first_column);
  } else if (out.dtype == Dtype::kBFloat16) {
    StoreBFloat16(sums, count, out.Row<BFloat16>(row) + tile.first_column);
  } else {
    Float16* to = out.Row<Float16>(row) + tile.first_column;
    for (int64_t i = 0; i < count; ++i) to[i] = Float16(sums[i]);
  }
}

}  // namespace

void FinishTile(const LinearTile& tile) {
  const View& residual = tile.args.residual;
  const float scale = tile.args.scale;
  for (int64_t i = 0; i < tile.num_rows; ++i) {
    const int64_t row = tile.first_row + i;
    float* sums = tile.sums + i * tile.stride;
    if (!tile.part.bias.empty()) AddBias(tile, sums);
    if (scale != 1.0f) {
      for (int64_t n = 0; n < tile.num_columns; ++n) sums[n] *= scale;
    }
    if (!residual.empty()) {
      const float* add = residual.Row<float>(row) + tile.first_column;
      for (int64_t n = 0; n < tile.num_columns; ++n) sums[n] += add[n];
    }
    Store(tile, row, sums);
  }
}

}  // namespace winnow
