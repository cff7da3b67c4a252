#include "kv/slot_invariants.h"

#include <gtest/gtest.h>

#include "kv/kv_block_pool.h"

namespace winnow {
namespace {

// Two layers, chunks of two frames; KV blocks 1 and 4 are split.
SlotSnapshot SoundLedger() {
  SlotSnapshot snapshot;
  snapshot.num_layers = 2;
  snapshot.chunk_frames = 2;
  snapshot.num_segments = 3;
  snapshot.num_chunks = 4;
  snapshot.num_free_segments = 1;
  snapshot.num_free_chunks = 1;
  snapshot.split = {{KvBlockId(1), 2}, {KvBlockId(4), 1}};
  snapshot.free_layer_blocks = {9};
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
  EXPECT_EQ(BrokenInvariants(SoundLedger()), std::vector<std::string>());
}

TEST(SlotInvariantsTest, NamesAStripThatIsLost) {
  SlotSnapshot snapshot = SoundLedger();
  snapshot.free_layer_blocks = {};
  EXPECT_EQ(OnlyFault(snapshot), "layer block 1 of KV block 4 has 0 places");
}

TEST(SlotInvariantsTest, NamesAStripThatIsUsedAndFree) {
  SlotSnapshot snapshot = SoundLedger();
  snapshot.free_layer_blocks = {8, 9};
  EXPECT_EQ(OnlyFault(snapshot), "layer block 0 of KV block 4 has 2 places");
}

TEST(SlotInvariantsTest, NamesAStripOfNoKvBlock) {
  SlotSnapshot snapshot = SoundLedger();
  snapshot.free_layer_blocks = {9, 10};
  EXPECT_EQ(OnlyFault(snapshot),
            "5 layer blocks have a place, 4 are of split KV blocks");
}

TEST(SlotInvariantsTest, NamesAWrongCount) {
  SlotSnapshot snapshot = SoundLedger();
  snapshot.split[1].num_used = 2;
  EXPECT_EQ(OnlyFault(snapshot),
            "KV block 4 has 1 used layer blocks, counted 2");
}

TEST(SlotInvariantsTest, NamesASegmentOfTwo) {
  SlotSnapshot snapshot = SoundLedger();
  snapshot.owners[1].segments = {0, 2};
  EXPECT_EQ(OnlyFault(snapshot), "segment 2 has 2 owners");
}

TEST(SlotInvariantsTest, NamesAChunkThatIsLost) {
  SlotSnapshot snapshot = SoundLedger();
  snapshot.num_free_chunks = 0;
  EXPECT_EQ(OnlyFault(snapshot), "chunks: 3 owned and 0 free are not 4");
}

TEST(SlotInvariantsTest, NamesALayerWithoutItsChunk) {
  SlotSnapshot snapshot = SoundLedger();
  snapshot.owners[1].chunks[1] = {};
  snapshot.num_free_chunks = 2;
  EXPECT_EQ(OnlyFault(snapshot), "sequence 2 layer 1: 1 frames have 0 chunks");
}

// Both sequences have two KV blocks of slots; their first pages have left.
SlotSnapshot SoundSlots() {
  SlotSnapshot snapshot;
  snapshot.num_layers = 2;
  snapshot.split = {{KvBlockId(1), 2}, {KvBlockId(4), 2}};
  snapshot.owners = {
      {SequenceId(1), {2}, {{2, 3}, {}}, {{0}, {}}},
      {SequenceId(2), {0}, {{8}, {9}}, {{3}, {1}}},
  };
  return snapshot;
}

KvSnapshot SoundKv() {
  KvSnapshot snapshot;
  const KvBlockId whole(0);
  snapshot.tables = {
      {SequenceId(1), 64, 64, {kNoKvBlock, whole}, {KvBlockId(7)}},
      {SequenceId(2), 64, 64, {kNoKvBlock, whole}, {KvBlockId(8)}},
      {SequenceId(3), 64, 64, {whole, whole}, {}}};
  snapshot.lent = {KvBlockId(1), KvBlockId(4)};
  return snapshot;
}

std::string OnlyFault(const SlotSnapshot& snapshot, const KvSnapshot& kv) {
  const std::vector<std::string> broken = BrokenInvariants(snapshot, kv);
  EXPECT_EQ(broken.size(), 1u) << testing::PrintToString(broken);
  return broken.empty() ? "" : broken[0];
}

TEST(SlotInvariantsTest, SoundPagesAndSlotsPass) {
  EXPECT_EQ(BrokenInvariants(SoundSlots(), SoundKv()),
            std::vector<std::string>());
}

TEST(SlotInvariantsTest, NamesAnKvBlockThatIsNotGivenBack) {
  KvSnapshot kv = SoundKv();
  kv.lent.push_back(KvBlockId(6));
  EXPECT_EQ(OnlyFault(SoundSlots(), kv), "2 KV blocks are split, 3 lent");
}

TEST(SlotInvariantsTest, NamesAnKvBlockOfTwo) {
  SlotSnapshot slots = SoundSlots();
  slots.owners[0].frames = {{2, 8}, {}};
  slots.owners[1].frames = {{3}, {9}};
  const std::vector<std::string> broken = BrokenInvariants(slots, SoundKv());
  EXPECT_EQ(broken,
            (std::vector<std::string>{"KV block 1 is not one sequence's",
                                      "KV block 4 is not one sequence's"}));
}

TEST(SlotInvariantsTest, NamesSlotsOfOneWhosePagesAreWhole) {
  KvSnapshot kv = SoundKv();
  kv.tables[0].pages[0] = KvBlockId(9);
  EXPECT_EQ(OnlyFault(SoundSlots(), kv),
            "sequence 1 has 0 pages on the host alone, 0 of them without a "
            "segment, and 2 layer blocks of slots");
  kv.tables.erase(kv.tables.begin());
  EXPECT_EQ(OnlyFault(SoundSlots(), kv), "sequence 1 has slots and no pages");
}

TEST(SlotInvariantsTest, NamesAPageThatNoEntriesLeadTo) {
  SlotSnapshot slots = SoundSlots();
  slots.owners[1].segments = {kNoSlotSegment};
  EXPECT_EQ(OnlyFault(slots, SoundKv()),
            "sequence 2 has 1 pages on the host alone, 1 of them without a "
            "segment, and 2 layer blocks of slots");
}

TEST(SlotInvariantsTest, NamesWhoHoldsMoreThanAllItsPages) {
  SlotSnapshot slots = SoundSlots();
  slots.owners[0].frames = {{2, 3}, {8, 9}};
  slots.owners[1].frames = {{}, {}};
  EXPECT_EQ(OnlyFault(slots, SoundKv()),
            "sequence 1 has 1 pages on the host alone, 0 of them without a "
            "segment, and 4 layer blocks of slots");
}

}  // namespace
}  // namespace winnow
