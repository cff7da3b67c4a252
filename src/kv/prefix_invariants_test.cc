#include "kv/prefix_invariants.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Messages = std::vector<std::string>;

// Root 9; under it page 4 in use twice, and under that two idle ones.
PrefixSnapshot Sound() {
  PrefixSnapshot snapshot = {.num_extents = 5,
                             .num_pages = 3,
                             .num_idle = 2,
                             .num_repeated = 1,
                             .roots = {{9, 1}}};
  snapshot.pages = {{4, 9, ExtentId(0), 2, 2, 8, true},
                    {5, 4, ExtentId(1), 0, 0, 7, true},
                    {6, 4, ExtentId(3), 0, 0, 3, true}};
  snapshot.evictable = {6, 5};
  return snapshot;
}

TEST(PrefixInvariantsTest, ASoundStateHasNothingToSay) {
  EXPECT_EQ(BrokenInvariants(Sound()), Messages());
  EXPECT_EQ(BrokenInvariants(PrefixSnapshot()), Messages());
}

TEST(PrefixInvariantsTest, CountsMustAgree) {
  PrefixSnapshot snapshot = Sound();
  snapshot.num_pages = 4;
  snapshot.num_idle = 1;
  snapshot.num_repeated = 0;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the index counts 4 pages, has 3",
                      "the index counts 1 idle pages, has 2",
                      "the index counts 0 repeated users, has 1"}));
}

TEST(PrefixInvariantsTest, PagesAreFoundAndHaveParents) {
  PrefixSnapshot snapshot = Sound();
  snapshot.pages[1].is_found = false;
  snapshot.pages[2].extent = ExtentId(5);
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the page of extent 1 is not found",
                      "extent 5 of 5 is a page"}));
  snapshot = Sound();
  snapshot.pages[0].parent = 3;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the page of extent 0 has no parent",
                      "root 9 counts 1 children, has 0"}));
}

TEST(PrefixInvariantsTest, WhatIsAboveAPageInUseIsInUse) {
  PrefixSnapshot snapshot = Sound();
  snapshot.pages[0].num_users = 0;
  snapshot.pages[1].num_users = 1;
  snapshot.num_repeated = 0;
  snapshot.evictable = {6};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the page of extent 1 is in use, above it 0 is idle"}));
}

TEST(PrefixInvariantsTest, EvictableAreIdleLeavesByLastUse) {
  PrefixSnapshot snapshot = Sound();
  snapshot.evictable = {5, 6};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"2 pages may be evicted in their order, 2 are idle "
                      "without children"}));
  snapshot = Sound();
  snapshot.pages[0].num_children = 1;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the page of extent 0 counts 1 children, has 2"}));
}

}  // namespace
}  // namespace winnow
