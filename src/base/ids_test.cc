#include "base/ids.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace winnow {
namespace {

static_assert(!std::is_convertible_v<int, KvBlockId>);
static_assert(!std::is_convertible_v<SequenceId, KvBlockId>);

TEST(IdsTest, OrderAndHash) {
  EXPECT_LT(KvBlockId(1), KvBlockId(2));
  std::unordered_set<KvBlockId> ids = {KvBlockId(1), KvBlockId(1),
                                       KvBlockId(2)};
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
