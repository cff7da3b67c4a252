#include "backend/conformance/closeness.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace winnow {
namespace {

TestArray Floats(std::vector<double> values) {
  TestArray array;
  array.dtype = Dtype::kFloat32;
  array.shape = {static_cast<int64_t>(values.size())};
  array.values = std::move(values);
  return array;
}

double ResultProperty(const std::string& name) {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.test_property_count(); ++i) {
    if (result.GetTestProperty(i).key() == name) {
      return std::strtod(result.GetTestProperty(i).value(), nullptr);
    }
  }
  return -1;
}

// The worst is not the largest error, but that which is nearest to its bound.
TEST(ClosenessTest, ATestsResultSaysWhatCameNearestToItsBound) {
  {
    Closeness close(Floats({1, 2.000001, 1000.0001}), Arithmetic::kSum);
    close.Expect({0}, 1, 1);
    close.Expect({1}, 2, 2);
    close.Expect({2}, 1000, 1000);
  }
  EXPECT_EQ(ResultProperty("compared"), 3);
  EXPECT_NEAR(ResultProperty("largest_error"), 1e-6, 1e-12);
  const double share = ResultProperty("error_share");
  EXPECT_NEAR(share, 1e-6 / ResultProperty("tolerance"), 1e-6);
  {
    Closeness nearer(Floats({1}), Arithmetic::kSum);
    nearer.Expect({0}, 1, 1);
  }
  EXPECT_EQ(ResultProperty("compared"), 4);
  EXPECT_EQ(ResultProperty("error_share"), share);
  {
    Closeness farther(Floats({1.000002}), Arithmetic::kSum);
    farther.Expect({0}, 1, 1);
  }
  EXPECT_EQ(ResultProperty("compared"), 5);
  EXPECT_GT(ResultProperty("error_share"), share);
  EXPECT_NEAR(ResultProperty("largest_error"), 2e-6, 1e-12);
}

}  // namespace
}  // namespace winnow
