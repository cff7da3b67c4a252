#include "backend/contract/weight_matrix.h"

#include <gtest/gtest.h>

#include <vector>

namespace winnow {
namespace {

// 6 x 4 numbers of which rows are 8 apart.
struct Numbers {
  std::vector<float> memory = std::vector<float>(48);
  View view = MakeView(memory.data(), Dtype::kFloat32, {6, 8}).Columns(0, 4);
};

TEST(WeightMatrixTest, ADenseMatrixIsItsNumbers) {
  Numbers numbers;
  const WeightMatrix matrix = DenseMatrix(numbers.view);
  EXPECT_EQ(BrokenRule(matrix), "");
  EXPECT_EQ(matrix.rows, 6);
  EXPECT_EQ(matrix.columns, 4);
  EXPECT_EQ(matrix.num_weights(), 24);
  EXPECT_EQ(matrix.num_bytes(), 24 * 4);
  EXPECT_EQ(ToString(matrix), "dense float32 [6, 4]");
}

TEST(WeightMatrixTest, RowsKeepTheirPlacesAndTheirGaps) {
  Numbers numbers;
  const WeightMatrix rows = DenseMatrix(numbers.view).Rows(2, 3);
  EXPECT_EQ(BrokenRule(rows), "");
  EXPECT_EQ(rows.rows, 3);
  EXPECT_EQ(rows.columns, 4);
  EXPECT_EQ(rows.codes.As<float>(), numbers.memory.data() + 16);
  EXPECT_EQ(rows.codes.stride[0], 8);
}

TEST(WeightMatrixTest, BrokenRulesAreNamed) {
  Numbers numbers;
  const WeightMatrix matrix = DenseMatrix(numbers.view);
  const auto broken = [&](auto&& change) {
    WeightMatrix changed = matrix;
    change(changed);
    return BrokenRule(changed);
  };
  const std::string extra =
      "a dense matrix must have no scales, zeros or groups, has ";
  const View none;
  EXPECT_EQ(broken([](WeightMatrix& m) { m.rows = 5; }),
            "codes of a dense matrix must be [5, 4], are float32 [6, 4]");
  EXPECT_EQ(broken([](WeightMatrix& m) { m.columns = 8; }),
            "codes of a dense matrix must be [6, 8], are float32 [6, 4]");
  EXPECT_EQ(broken([](WeightMatrix& m) { m.codes.rank = 1; }),
            "codes of a dense matrix must be [6, 4], are float32 [6]");
  EXPECT_EQ(broken([](WeightMatrix& m) { m.codes.dtype = Dtype::kUInt8; }),
            "codes of a dense matrix must be float32, bfloat16 or float16, "
            "are uint8");
  EXPECT_EQ(broken([&](WeightMatrix& m) { m.scales = numbers.view; }),
            extra + "scales float32 [6, 4], zeros " + ToString(none) +
                ", group_rows=0, group_columns=0");
  EXPECT_EQ(broken([&](WeightMatrix& m) { m.zeros = numbers.view; }),
            extra + "scales " + ToString(none) +
                ", zeros float32 [6, 4], group_rows=0, group_columns=0");
  EXPECT_NE(broken([](WeightMatrix& m) { m.group_rows = 1; }), "");
  EXPECT_NE(broken([](WeightMatrix& m) { m.group_columns = 128; }), "");
}

TEST(WeightMatrixDeathTest, RowsBeyondTheLastAreABug) {
  Numbers numbers;
  const WeightMatrix matrix = DenseMatrix(numbers.view);
  EXPECT_DEATH(matrix.Rows(4, 3), "");
}

}  // namespace
}  // namespace winnow
