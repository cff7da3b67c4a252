#include "base/ids.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace winnow {
namespace {

static_assert(!std::is_convertible_v<int, ExtentId>);
static_assert(!std::is_convertible_v<SequenceId, ExtentId>);

TEST(IdsTest, OrderAndHash) {
  EXPECT_LT(ExtentId(1), ExtentId(2));
  std::unordered_set<ExtentId> ids = {ExtentId(1), ExtentId(1), ExtentId(2)};
  EXPECT_EQ(ids.size(), 2u);
}

TEST(IdsTest, PagesForCountsTheOpenOne) {
  EXPECT_EQ(PagesFor(0), 0);
  EXPECT_EQ(PagesFor(1), 1);
  EXPECT_EQ(PagesFor(kPageTokens), 1);
  EXPECT_EQ(PagesFor(kPageTokens + 1), 2);
}

}  // namespace
}  // namespace winnow
