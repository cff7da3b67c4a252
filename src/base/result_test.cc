#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace winnow {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) {
    return MakeError(ErrorCode::kInvalidArgument, "n must be even, is {}", n);
  }
  return n / 2;
}

Result<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckEven(int n) {
  RETURN_IF_ERROR(Half(n));
  return Ok{};
}

TEST(ResultTest, CarriesValueOrError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).error().message, "n must be even, is 3");
  EXPECT_EQ(Quarter(6).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(CheckEven(4).ok());
  EXPECT_FALSE(CheckEven(5).ok());
}

TEST(ResultTest, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(7);
  const std::unique_ptr<int> owned = std::move(r).value();
  EXPECT_EQ(*owned, 7);
}

TEST(ResultDeathTest, ValueOfAnErrorStops) {
  EXPECT_DEATH((void)*Half(3), "n must be even, is 3");
}

TEST(ResultTest, EveryCodeHasAName) {
  EXPECT_EQ(ErrorCodeName(ErrorCode::kIo), "input/output");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kCorrupt), "corrupt");
}

}  // namespace
}  // namespace winnow
