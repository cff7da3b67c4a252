#include "model/forward/dtypes.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

TEST(DtypesTest, KvOfAnotherDtypeIsRefused) {
  EXPECT_TRUE(CheckDtypes({Dtype::kFloat16, Dtype::kFloat16}).ok());
  const Status status =
      CheckDtypes({.compute = Dtype::kBFloat16, .kv = Dtype::kFloat8E4M3});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(status.error().message,
            "the dtype of KV must be that of compute, bfloat16, is " +
                std::string(DtypeName(Dtype::kFloat8E4M3)));
}

}  // namespace
}  // namespace winnow
