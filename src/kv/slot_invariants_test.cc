#include "kv/slot_invariants.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

// Two layers, chunks of two frames; extents 1 and 4 are split.
SlotSnapshot Sound() {
  SlotSnapshot snapshot;
  snapshot.num_layers = 2;
  snapshot.chunk_frames = 2;
  snapshot.num_segments = 3;
  snapshot.num_chunks = 4;
  snapshot.num_free_segments = 1;
  snapshot.num_free_chunks = 1;
  snapshot.split = {{ExtentId(1), 2}, {ExtentId(4), 1}};
  snapshot.free_strips = {9};
  snapshot.owners = {
      {SequenceId(1), {kNoSlotSegment, 2}, {{2}, {}}, {{0}, {}}},
      {SequenceId(2), {0}, {{3}, {8}}, {{3}, {1}}},
  };
  return snapshot;
}

std::string OnlyFault(const SlotSnapshot& snapshot) {
  const std::vector<std::string> broken = BrokenInvariants(snapshot);
  EXPECT_EQ(broken.size(), 1u) << testing::PrintToString(broken);
  return broken.empty() ? "" : broken[0];
}

TEST(SlotInvariantsTest, SoundStatesPass) {
  EXPECT_EQ(BrokenInvariants(Sound()), std::vector<std::string>());
}

TEST(SlotInvariantsTest, NamesAStripThatIsLost) {
  SlotSnapshot snapshot = Sound();
  snapshot.free_strips = {};
  EXPECT_EQ(OnlyFault(snapshot), "strip 1 of extent 4 has 0 places");
}

TEST(SlotInvariantsTest, NamesAStripThatIsUsedAndFree) {
  SlotSnapshot snapshot = Sound();
  snapshot.free_strips = {8, 9};
  EXPECT_EQ(OnlyFault(snapshot), "strip 0 of extent 4 has 2 places");
}

TEST(SlotInvariantsTest, NamesAStripOfNoExtent) {
  SlotSnapshot snapshot = Sound();
  snapshot.free_strips = {9, 10};
  EXPECT_EQ(OnlyFault(snapshot),
            "5 strips have a place, 4 are of split extents");
}

TEST(SlotInvariantsTest, NamesAWrongCount) {
  SlotSnapshot snapshot = Sound();
  snapshot.split[1].num_used = 2;
  EXPECT_EQ(OnlyFault(snapshot), "extent 4 has 1 used strips, counted 2");
}

TEST(SlotInvariantsTest, NamesASegmentOfTwo) {
  SlotSnapshot snapshot = Sound();
  snapshot.owners[1].segments = {0, 2};
  EXPECT_EQ(OnlyFault(snapshot), "segment 2 has 2 owners");
}

TEST(SlotInvariantsTest, NamesAChunkThatIsLost) {
  SlotSnapshot snapshot = Sound();
  snapshot.num_free_chunks = 0;
  EXPECT_EQ(OnlyFault(snapshot), "chunks: 3 owned and 0 free are not 4");
}

TEST(SlotInvariantsTest, NamesALayerWithoutItsChunk) {
  SlotSnapshot snapshot = Sound();
  snapshot.owners[1].chunks[1] = {};
  snapshot.num_free_chunks = 2;
  EXPECT_EQ(OnlyFault(snapshot), "sequence 2 layer 1: 1 frames have 0 chunks");
}

}  // namespace
}  // namespace winnow
