#include "tensor/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace winnow {
namespace {

TEST(ViewTest, SlicesAndReshapesWithoutCopy) {
  std::vector<float> numbers(24);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const View all = MakeView(numbers.data(), Dtype::kFloat32, {4, 6});
  EXPECT_EQ(*all.Row<float>(2), 12.0f);
  const View middle = all.Slice(1, 2);
  EXPECT_EQ(middle.dim(0), 2);
  EXPECT_EQ(*middle.Row<float>(1), 12.0f);
  EXPECT_EQ(*middle.Reshape({3, 4}).Row<float>(1), 10.0f);
  EXPECT_EQ(ToString(middle), "float32 [2, 6]");
  EXPECT_EQ(all.num_elements(), 24);
  EXPECT_EQ(middle.num_bytes(), 48);
}

TEST(ViewTest, ColumnsKeepTheRowsApart) {
  std::vector<float> data(24);
  const View whole = MakeView(data.data(), Dtype::kFloat32, {3, 8});
  const View right = whole.Columns(2, 6);
  EXPECT_EQ(right.dim(1), 6);
  EXPECT_EQ(right.Row<float>(1), data.data() + 10);
  EXPECT_FALSE(right.contiguous());
  const View heads = right.SplitColumns(3);
  EXPECT_EQ(ToString(heads), "float32 [3, 3, 2]");
  EXPECT_EQ(heads.stride[0], 8);
  EXPECT_EQ(heads.stride[1], 2);
  EXPECT_EQ(heads.Row<float>(2) + heads.stride[1], data.data() + 20);
}

TEST(ViewTest, KnowsGaps) {
  std::vector<float> numbers(24);
  View view = MakeView(numbers.data(), Dtype::kFloat32, {4, 6});
  EXPECT_TRUE(view.contiguous());
  view.shape[1] = 5;
  EXPECT_FALSE(view.contiguous());
  EXPECT_TRUE(View().empty());
}

TEST(ViewDeathTest, ColumnsBeyondTheLast) {
  std::vector<float> data(24);
  const View view = MakeView(data.data(), Dtype::kFloat32, {3, 8});
  EXPECT_DEATH(view.Columns(3, 6), "first=3 count=6");
  EXPECT_DEATH(view.SplitColumns(3), "parts=3");
}

TEST(ViewDeathTest, WrongTypeAndRange) {
  std::vector<float> numbers(4);
  const View view = MakeView(numbers.data(), Dtype::kFloat32, {4});
  EXPECT_DEATH((void)view.As<int32_t>(), "view is float32, asked for int32");
  EXPECT_DEATH((void)view.Slice(3, 2), "first=3 count=2 of float32 \\[4\\]");
  EXPECT_DEATH((void)view.Reshape({3}), "float32 \\[4\\] to float32 \\[3\\]");
}

}  // namespace
}  // namespace winnow
