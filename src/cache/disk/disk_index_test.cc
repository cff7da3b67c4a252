#include "cache/disk/disk_index.h"

#include <gtest/gtest.h>

#include "cache/disk/disk_test_pieces.h"

namespace winnow {
namespace {

class DiskIndexTest : public testing::Test {
 protected:
  void TearDown() override { ExpectInvariants(index_); }

  static void ExpectInvariants(const DiskIndex& index) {
    const std::vector<std::string> broken = BrokenInvariants(index.Snapshot());
    EXPECT_TRUE(broken.empty()) << broken.front();
  }
  // Places the text's pages and says that they are written.
  size_t Write(const TestText& text) {
    const auto placed = index_.Enter(text.path(), text.kinds, 0);
    for (const DiskPlacement& each : placed) index_.Written(each.slot);
    return placed.size();
  }
  size_t NumFound(const TestText& text) const { return NumFound(index_, text); }
  static size_t NumFound(const DiskIndex& index, const TestText& text) {
    return index.Find(text.path(), text.num_pages(), kKinds).size();
  }

  DiskIndex index_{4, /*session=*/1};
};

TEST_F(DiskIndexTest, FindsTheLongestBeginningThatIsWritten) {
  EXPECT_EQ(Write(Text({1, 2})), 2u);
  EXPECT_EQ(NumFound(Text({1, 2, 3})), 2u);
  EXPECT_EQ(NumFound(Text({1, 3})), 1u);
  EXPECT_EQ(NumFound(Text({2})), 0u);
  EXPECT_EQ(NumFound(Text({1, 2}, "another root")), 0u);
  EXPECT_EQ(Write(Text({1, 2, 3})), 1u) << "two pages were there";
}

TEST_F(DiskIndexTest, KindsAreTriedInTheirOrder) {
  ASSERT_EQ(Write(Text({1})), 1u);
  const TestText text = Text({1});
  const std::vector<PageKind> others = {1};
  EXPECT_TRUE(index_.Find(text.path(), 1, others).empty());
  EXPECT_EQ(index_.Find(text.path(), 1, kKinds).at(0).kind, 0u);
}

TEST_F(DiskIndexTest, WhatIsUnderWayIsNotFound) {
  const TestText text = Text({1, 2});
  const auto placed = index_.Enter(text.path(), text.kinds, 0);
  ASSERT_EQ(placed.size(), 2u);
  EXPECT_EQ(NumFound(text), 0u);
  index_.Written(placed[1].slot);
  EXPECT_EQ(NumFound(text), 0u) << "its parent is not there";
  EXPECT_TRUE(index_.Enter(text.path(), text.kinds, 0).empty());
  index_.Written(placed[0].slot);
  EXPECT_EQ(NumFound(text), 2u);
}

TEST_F(DiskIndexTest, LabelsNameTheParentsWrite) {
  const TestText text = Text({1, 12});
  const auto placed = index_.Enter(text.path(), text.kinds, 0);
  ASSERT_EQ(placed.size(), 2u);
  EXPECT_EQ(placed[0].label.root, "root");
  EXPECT_EQ(placed[0].label.parent, PieceId());
  EXPECT_EQ(placed[1].label.root, "");
  EXPECT_EQ(placed[1].label.parent, placed[0].label.id);
  EXPECT_EQ(placed[1].label.kind, 1u);
  EXPECT_EQ(placed[1].label.tokens[5], 12);
  for (const DiskPlacement& each : placed) index_.Written(each.slot);
}

TEST_F(DiskIndexTest, TheLeafUsedLongestAgoGoesFirst) {
  Write(Text({1, 2}));
  Write(Text({3}));
  Write(Text({4}));
  Write(Text({1, 2}));  // there already: used again
  EXPECT_EQ(Write(Text({5})), 1u);
  EXPECT_EQ(NumFound(Text({3})), 0u);
  EXPECT_EQ(Write(Text({6})), 1u);
  EXPECT_EQ(NumFound(Text({4})), 0u);
  EXPECT_EQ(Write(Text({7})), 1u);
  EXPECT_EQ(NumFound(Text({1, 2})), 1u) << "the leaf goes, not what it is on";
}

TEST_F(DiskIndexTest, WhatIsReadStays) {
  Write(Text({1}));
  const auto found = index_.Find(Text({1}).path(), 1, kKinds);
  ASSERT_TRUE(index_.Pin(found[0]));
  EXPECT_EQ(Write(Text({2, 2, 2, 2, 2})), 3u);
  EXPECT_EQ(NumFound(Text({1})), 1u);
  index_.Unpin(found[0].slot);
  EXPECT_EQ(Write(Text({2, 2, 2, 2, 2})), 1u);
  EXPECT_FALSE(index_.Pin(found[0])) << "another piece has its slot";
}

TEST_F(DiskIndexTest, APathNeverOverwritesItself) {
  EXPECT_EQ(Write(Text({1, 2, 3, 4, 5, 6})), 4u);
  EXPECT_EQ(NumFound(Text({1, 2, 3, 4, 5, 6})), 4u);
  DiskIndex one(1, 1);
  const TestText text = Text({1, 2});
  const auto placed = one.Enter(text.path(), text.kinds, 0);
  ASSERT_EQ(placed.size(), 1u);
  one.Written(placed[0].slot);
  EXPECT_TRUE(one.Enter(text.path(), text.kinds, 0).empty());
  // The last page of a root goes for the next of the same root.
  const TestText other = Text({3});
  const auto next = one.Enter(other.path(), other.kinds, 0);
  ASSERT_EQ(next.size(), 1u);
  one.Written(next[0].slot);
  EXPECT_EQ(NumFound(one, other), 1u);
  ExpectInvariants(one);
}

TEST_F(DiskIndexTest, WhatIsLostTakesAllBelowIt) {
  Write(Text({1, 2, 3}));
  Write(Text({1, 4}));
  const auto found = index_.Find(Text({1, 2, 3}).path(), 3, kKinds);
  ASSERT_TRUE(index_.Pin(found[2]));
  index_.Drop(found[1].slot);
  index_.Drop(found[2].slot);  // lost already
  EXPECT_EQ(NumFound(Text({1, 2, 3})), 1u);
  EXPECT_EQ(NumFound(Text({1, 4})), 2u);
  ExpectInvariants(index_);
  EXPECT_EQ(index_.Snapshot().free.size(), 1u) << "one is still being read";
  index_.Unpin(found[2].slot);
  EXPECT_EQ(index_.Snapshot().free.size(), 2u);
}

TEST_F(DiskIndexTest, AFailedWriteTakesItsChildrenWithIt) {
  const TestText text = Text({1, 2});
  const auto placed = index_.Enter(text.path(), text.kinds, 0);
  index_.Drop(placed[0].slot);
  index_.Unpin(placed[0].slot);
  index_.Written(placed[1].slot);
  EXPECT_EQ(NumFound(text), 0u);
  EXPECT_EQ(index_.num_pieces(), 0);
  EXPECT_EQ(Write(text), 2u);
}

TEST_F(DiskIndexTest, NothingIsWrittenBelowWhatIsMissing) {
  const TestText text = Text({1, 2});
  EXPECT_TRUE(index_.Enter(text.path(), text.kinds, 1).empty());
  EXPECT_TRUE(index_.Snapshot().roots.empty());
}

std::pair<DiskSlot, PieceLabel> Found(uint32_t slot, PieceId id, PieceId parent,
                                      int token) {
  PieceLabel label = {.id = id, .parent = parent};
  if (parent.number == 0) label.root = "root";
  label.tokens.fill(token);
  return {DiskSlot(slot), label};
}

TEST_F(DiskIndexTest, IsPutTogetherFromTrailersInAnyOrder) {
  index_.Restore({Found(3, {1, 7}, {1, 5}, 3), Found(0, {1, 5}, {1, 2}, 2),
                  Found(1, {1, 2}, {}, 1)});
  EXPECT_EQ(NumFound(Text({1, 2, 3})), 3u);
  const TestText text = Text({9});
  const auto placed = index_.Enter(text.path(), text.kinds, 0);
  ASSERT_EQ(placed.size(), 1u);
  EXPECT_EQ(placed[0].label.id, (PieceId{1, 8})) << "numbers go on";
  EXPECT_EQ(placed[0].slot, DiskSlot(2)) << "the one that is free";
  index_.Written(placed[0].slot);
}

TEST_F(DiskIndexTest, OrphansAreDropped) {
  // The second's parent is another write of what lies in slot 0 now.
  index_.Restore({Found(0, {2, 5}, {}, 1), Found(1, {1, 6}, {1, 5}, 2),
                  Found(2, {1, 7}, {1, 6}, 3)});
  EXPECT_EQ(NumFound(Text({1, 2, 3})), 1u);
  EXPECT_EQ(index_.num_pieces(), 1);
  EXPECT_EQ(index_.Snapshot().free.size(), 2u);
}

TEST_F(DiskIndexTest, OfEqualPagesTheLastWrittenIsKept) {
  index_.Restore({Found(0, {1, 1}, {}, 1), Found(1, {1, 2}, {1, 1}, 2),
                  Found(2, {1, 3}, {}, 1), Found(3, {1, 4}, {1, 3}, 5)});
  EXPECT_EQ(NumFound(Text({1, 2})), 1u) << "it was of the older page";
  EXPECT_EQ(NumFound(Text({1, 5})), 2u);
  EXPECT_EQ(index_.num_pieces(), 2);
}

TEST_F(DiskIndexTest, TheOrderOfWritingIsTheFirstOrderOfUse) {
  index_.Restore({Found(0, {1, 4}, {}, 4), Found(1, {1, 2}, {}, 2),
                  Found(2, {1, 3}, {}, 3), Found(3, {1, 1}, {}, 1)});
  EXPECT_EQ(Write(Text({8})), 1u);
  EXPECT_EQ(NumFound(Text({1})), 0u);
  EXPECT_EQ(NumFound(Text({2})), 1u);
}

}  // namespace
}  // namespace winnow
