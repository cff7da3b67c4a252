#include "kv/prefix_invariants.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Messages = std::vector<std::string>;

// Root 9; under it page 4 in use twice, and under that two idle ones.
PrefixSnapshot SoundIndex() {
  PrefixSnapshot snapshot = {.num_kv_blocks = 5,
                             .num_pages = 3,
                             .num_idle = 2,
                             .num_repeated = 1,
                             .roots = {{9, 1}}};
  snapshot.pages = {{4, 9, KvBlockId(0), 2, 2, 8, true},
                    {5, 4, KvBlockId(1), 0, 0, 7, true},
                    {6, 4, KvBlockId(3), 0, 0, 3, true}};
  snapshot.evictable = {6, 5};
  return snapshot;
}

TEST(PrefixInvariantsTest, ASoundStateHasNothingToSay) {
  EXPECT_EQ(BrokenInvariants(SoundIndex()), Messages());
  EXPECT_EQ(BrokenInvariants(PrefixSnapshot()), Messages());
}

TEST(PrefixInvariantsTest, CountsMustAgree) {
  PrefixSnapshot snapshot = SoundIndex();
  snapshot.num_pages = 4;
  snapshot.num_idle = 1;
  snapshot.num_repeated = 0;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the index counts 4 pages, has 3",
                      "the index counts 1 idle pages, has 2",
                      "the index counts 0 repeated users, has 1"}));
}

TEST(PrefixInvariantsTest, PagesAreFoundAndHaveParents) {
  PrefixSnapshot snapshot = SoundIndex();
  snapshot.pages[1].is_found = false;
  snapshot.pages[2].kv_block = KvBlockId(5);
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"KV block 5 of 5 is a page",
                      "the page of KV block 1 is not found"}));
  snapshot = SoundIndex();
  snapshot.pages[0].parent = 3;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the page of KV block 0 has no parent",
                      "root 9 counts 1 children, has 0"}));
}

TEST(PrefixInvariantsTest, WhatIsAboveAPageInUseIsInUse) {
  PrefixSnapshot snapshot = SoundIndex();
  snapshot.pages[0].num_users = 0;
  snapshot.pages[1].num_users = 1;
  snapshot.num_repeated = 0;
  snapshot.evictable = {6};
  EXPECT_EQ(
      BrokenInvariants(snapshot),
      Messages(
          {"the page of KV block 1 is in use, above it the page of KV block "
           "0 is idle"}));
}

TEST(PrefixInvariantsTest, EvictableAreIdleLeavesByLastUse) {
  PrefixSnapshot snapshot = SoundIndex();
  snapshot.evictable = {5, 6};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"2 pages may be evicted in their order, 2 are idle "
                      "without children"}));
  snapshot = SoundIndex();
  snapshot.pages[0].num_children = 1;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the page of KV block 0 counts 1 children, has 2"}));
}

// The same, with a duplicate of page 5, and two pages under it on the host.
PrefixSnapshot OnTwoTiers() {
  PrefixSnapshot snapshot = SoundIndex();
  snapshot.num_host_kv_blocks = 4;
  snapshot.num_pages = 5;
  snapshot.pages[1].host_kv_block = KvBlockId(2);
  snapshot.pages[1].num_children = 1;
  snapshot.pages.push_back({7, 5, std::nullopt, 1, 0, 5, true, KvBlockId(0)});
  snapshot.pages.push_back({8, 7, std::nullopt, 0, 0, 4, true, KvBlockId(3)});
  snapshot.host_evictable = {8};
  snapshot.duplicates = {5};
  return snapshot;
}

TEST(PrefixInvariantsTest, PagesMayLieOnTheHost) {
  EXPECT_EQ(BrokenInvariants(OnTwoTiers()), Messages());
  PrefixSnapshot snapshot = OnTwoTiers();
  snapshot.pages[4].host_kv_block = KvBlockId(0);
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"host KV block 0 is two pages"}));
  snapshot = OnTwoTiers();
  snapshot.pages[4].host_kv_block.reset();
  EXPECT_EQ(BrokenInvariants(snapshot), Messages({"page 8 lies nowhere"}));
}

TEST(PrefixInvariantsTest, WhatIsUsedOrAboveADevicePageIsOnTheDevice) {
  PrefixSnapshot snapshot = OnTwoTiers();
  snapshot.pages[4].num_users = 1;
  snapshot.host_evictable = {};
  EXPECT_EQ(
      BrokenInvariants(snapshot),
      Messages({"the page of host KV block 3 is in use, but not on the "
                "device",
                "the page of host KV block 3 is in use, above it the page "
                "of host KV block 0 is idle"}));
  snapshot = OnTwoTiers();
  snapshot.pages[4].kv_block = KvBlockId(4);
  snapshot.num_idle = 3;
  snapshot.evictable = {6, 8, 5};
  snapshot.host_evictable = {};
  snapshot.duplicates = {8, 5};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the page of KV block 4 is on the device, above it the "
                      "page of host KV block 0 is not"}));
}

TEST(PrefixInvariantsTest, TheHostHasOrdersOfItsOwn) {
  PrefixSnapshot snapshot = OnTwoTiers();
  snapshot.host_evictable = {8, 7};
  snapshot.duplicates = {};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"2 pages may be evicted in their order, 1 are on the "
                      "host alone without children",
                      "0 pages may be evicted in their order, 1 are "
                      "duplicates"}));
}

}  // namespace
}  // namespace winnow
