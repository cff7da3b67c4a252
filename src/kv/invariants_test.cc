#include "kv/invariants.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Messages = std::vector<std::string>;

// Four KV blocks: 0 shared by two sequences, 1 and 3 owned, 2 free.
KvSnapshot SoundCache() {
  KvSnapshot snapshot;
  snapshot.device.num_free = 1;
  snapshot.device.num_in_use = 3;
  snapshot.device.references = {2, 1, 0, 1};
  snapshot.device.is_free = {false, false, true, false};
  snapshot.tables = {
      {SequenceId(5), 40, 32, {KvBlockId(0), KvBlockId(1)}},
      {SequenceId(8), 64, 64, {KvBlockId(0), KvBlockId(3)}},
  };
  return snapshot;
}

TEST(InvariantsTest, ASoundStateHasNothingToSay) {
  EXPECT_EQ(BrokenInvariants(SoundCache()), Messages());
  EXPECT_EQ(BrokenInvariants(KvSnapshot()), Messages());
}

TEST(InvariantsTest, CountsMustAdd) {
  KvSnapshot snapshot = SoundCache();
  snapshot.device.num_in_use = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"free 1 + in use 2 != total 4"}));
  snapshot.device.num_free = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"the pool counts 2 free KV blocks, marks 1"}));
  snapshot = SoundCache();
  snapshot.device.is_free.pop_back();
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"3 free marks for 4 KV blocks"}));
}

TEST(InvariantsTest, ThePrefixIndexIsAHolder) {
  KvSnapshot snapshot = SoundCache();
  snapshot.device.references = {3, 1, 1, 1};
  snapshot.device.is_free[2] = false;
  snapshot.device.num_free = 0;
  snapshot.device.num_in_use = 4;
  snapshot.indexed = {{KvBlockId(0), 2}, {KvBlockId(2), 0}};
  EXPECT_EQ(BrokenInvariants(snapshot), Messages());
  snapshot.indexed[0].num_users = 1;
  snapshot.device.references[2] = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"KV block 0 has 1 users, 2 tables",
                      "KV block 2 has 2 references, 1 holders"}));
}

TEST(InvariantsTest, PagesThatAreNotWholeAreHeldOnTheHost) {
  KvSnapshot snapshot = SoundCache();
  snapshot.tables[0].pages[0] = KvBlockId(0xffffffff);
  snapshot.tables[0].far_pages = {KvBlockId(1)};
  snapshot.lent = {KvBlockId(0)};
  snapshot.host = {.num_free = 1,
                   .num_in_use = 1,
                   .references = {0, 1},
                   .is_free = {true, false}};
  EXPECT_EQ(BrokenInvariants(snapshot), Messages());
  snapshot.lent = {};
  snapshot.host.references[1] = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"KV block 0 has 2 references, 1 holders",
                      "host KV block 1 has 2 references, 1 holders"}));
  snapshot.lent = {KvBlockId(0)};
  snapshot.host.references[1] = 1;
  snapshot.tables[0].num_sealed = 31;
  EXPECT_EQ(
      BrokenInvariants(snapshot),
      Messages({"page 0 of sequence 5 has KV block 4294967295 and 1 of the "
                "host, 31 tokens are sealed"}));
  snapshot.tables[0].num_sealed = 32;
  snapshot.tables[0].pages[0] = KvBlockId(0);
  snapshot.lent = {};
  EXPECT_EQ(
      BrokenInvariants(snapshot),
      Messages({"page 0 of sequence 5 has KV block 0 and 1 of the host, 32 "
                "tokens are sealed"}));
}

TEST(InvariantsTest, ReferencesAreHolders) {
  KvSnapshot snapshot = SoundCache();
  snapshot.device.references[0] = 1;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"KV block 0 has 1 references, 2 holders"}));
  snapshot = SoundCache();
  snapshot.device.is_free = {false, false, false, true};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"KV block 2 is in use with 0 references",
                      "KV block 3 is free with 1 references"}));
}

TEST(InvariantsTest, TablesHoldWhatTheyNeedOnce) {
  KvSnapshot snapshot = SoundCache();
  snapshot.tables[0].num_tokens = 65;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"sequence 5 has 2 pages for 65 tokens"}));
  snapshot = SoundCache();
  snapshot.tables[1].num_sealed = 65;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"sequence 8 has 65 tokens sealed, 64 owned"}));
  snapshot = SoundCache();
  snapshot.tables[1].pages[1] = KvBlockId(0);
  snapshot.device.references = {3, 1, 0, 0};
  snapshot.device.is_free = {false, false, true, true};
  snapshot.device.num_free = snapshot.device.num_in_use = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"sequence 8 holds KV block 0 twice"}));
  snapshot.tables[1].pages[1] = KvBlockId(4);
  snapshot.device.references[0] = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"sequence 8 holds KV block 4 of 4"}));
}

TEST(InvariantsTest, APageUnderTheStepsHandHasOneOwner) {
  KvSnapshot snapshot = SoundCache();
  snapshot.tables[0].num_sealed = 31;  // the last token of page 0 is pending
  EXPECT_EQ(
      BrokenInvariants(snapshot),
      Messages({"sequence 5 may be writing page 0, whose KV block 0 has 2 "
                "owners"}));
}

}  // namespace
}  // namespace winnow
