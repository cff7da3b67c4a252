// WeightMatrix: a product's weights in the format that memory holds them in.
#ifndef WINNOW_BACKEND_CONTRACT_WEIGHT_MATRIX_H_
#define WINNOW_BACKEND_CONTRACT_WEIGHT_MATRIX_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/view.h"

namespace winnow {

enum class WeightFormat : uint8_t {
  kDense,  // codes are the weights: float32, bfloat16 or float16
};

// "dense": for messages.
std::string_view WeightFormatName(WeightFormat format);

// Weights [rows, columns]: a row makes one output, a column meets one input.
// Owns nothing, as a View.
//
// A format with scales has one for each group of group_rows x group_columns
// codes: weight = scale * (code - zero). So 128 x 128 is a block of FP8, 1 x
// 128 a group of GPTQ or AWQ, and 1 x columns the scale of an output.
struct WeightMatrix {
  WeightFormat format = WeightFormat::kDense;
  int64_t rows = 0, columns = 0;
  View codes;   // [rows, columns]
  View scales;  // [ceil(rows / group_rows), ceil(columns / group_columns)]
  View zeros;   // as scales; empty: zero
  // In codes. 0: the format has no scales.
  int64_t group_rows = 0, group_columns = 0;

  bool empty() const { return codes.empty(); }
  int64_t num_weights() const { return rows * columns; }
  int64_t num_bytes() const;  // of codes, scales and zeros
  // Rows [first, first + count). REQUIRES: there are so many; kDense.
  WeightMatrix Rows(int64_t first, int64_t count) const;
};

// Numbers [rows, columns] as weights.
WeightMatrix DenseMatrix(const View& numbers);

// Which rule of its format the matrix breaks, with the values; "": none.
std::string BrokenRule(const WeightMatrix& matrix);

// "dense bfloat16 [3, 4]": for messages.
std::string ToString(const WeightMatrix& matrix);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONTRACT_WEIGHT_MATRIX_H_
