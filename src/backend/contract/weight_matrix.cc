#include "backend/contract/weight_matrix.h"

#include <fmt/format.h>

#include "base/check.h"

namespace winnow {
namespace {

std::string BrokenDenseRule(const WeightMatrix& matrix) {
  const View& codes = matrix.codes;
  if (codes.rank != 2 || codes.dim(0) != matrix.rows ||
      codes.dim(1) != matrix.columns) {
    return fmt::format("codes of a dense matrix must be [{}, {}], are {}",
                       matrix.rows, matrix.columns, ToString(codes));
  }
  if (codes.dtype != Dtype::kFloat32 && codes.dtype != Dtype::kBFloat16 &&
      codes.dtype != Dtype::kFloat16) {
    return fmt::format(
        "codes of a dense matrix must be float32, bfloat16 or float16, are {}",
        DtypeName(codes.dtype));
  }
  if (!matrix.scales.empty() || !matrix.zeros.empty() ||
      matrix.group_rows != 0 || matrix.group_columns != 0) {
    return fmt::format(
        "a dense matrix must have no scales, zeros or groups, has scales {}, "
        "zeros {}, group_rows={}, group_columns={}",
        ToString(matrix.scales), ToString(matrix.zeros), matrix.group_rows,
        matrix.group_columns);
  }
  return "";
}

}  // namespace

std::string_view WeightFormatName(WeightFormat format) {
  switch (format) {
    case WeightFormat::kDense:
      return "dense";
  }
  CHECK(false, "format={}", static_cast<int>(format));
}

int64_t WeightMatrix::num_bytes() const {
  int64_t bytes = 0;
  for (const View* view : {&codes, &scales, &zeros}) {
    if (!view->empty()) bytes += view->num_bytes();
  }
  return bytes;
}

WeightMatrix WeightMatrix::Rows(int64_t first, int64_t count) const {
  CHECK(format == WeightFormat::kDense, "{}", ToString(*this));
  WeightMatrix matrix = *this;
  matrix.rows = count;
  matrix.codes = codes.Slice(first, count);
  return matrix;
}

WeightMatrix DenseMatrix(const View& numbers) {
  CHECK(numbers.rank == 2, "numbers {}", ToString(numbers));
  return {.format = WeightFormat::kDense,
          .rows = numbers.dim(0),
          .columns = numbers.dim(1),
          .codes = numbers,
          .scales = {},
          .zeros = {}};
}

std::string BrokenRule(const WeightMatrix& matrix) {
  switch (matrix.format) {
    case WeightFormat::kDense:
      return BrokenDenseRule(matrix);
  }
  return fmt::format("format={}", static_cast<int>(matrix.format));
}

std::string ToString(const WeightMatrix& matrix) {
  return fmt::format("{} {}", WeightFormatName(matrix.format),
                     ToString(matrix.codes));
}

}  // namespace winnow
