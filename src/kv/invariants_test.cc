#include "kv/invariants.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Messages = std::vector<std::string>;

// Four extents: 0 shared by two sequences, 1 and 3 owned, 2 free.
KvSnapshot SoundCache() {
  KvSnapshot snapshot;
  snapshot.device.num_free = 1;
  snapshot.device.num_in_use = 3;
  snapshot.device.references = {2, 1, 0, 1};
  snapshot.device.is_free = {false, false, true, false};
  snapshot.tables = {
      {SequenceId(5), 40, 32, {ExtentId(0), ExtentId(1)}},
      {SequenceId(8), 64, 64, {ExtentId(0), ExtentId(3)}},
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
            Messages({"the pool counts 2 free extents, marks 1"}));
  snapshot = SoundCache();
  snapshot.device.is_free.pop_back();
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"3 free marks for 4 extents"}));
}

TEST(InvariantsTest, ThePrefixIndexIsAHolder) {
  KvSnapshot snapshot = SoundCache();
  snapshot.device.references = {3, 1, 1, 1};
  snapshot.device.is_free[2] = false;
  snapshot.device.num_free = 0;
  snapshot.device.num_in_use = 4;
  snapshot.indexed = {{ExtentId(0), 2}, {ExtentId(2), 0}};
  EXPECT_EQ(BrokenInvariants(snapshot), Messages());
  snapshot.indexed[0].num_users = 1;
  snapshot.device.references[2] = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"extent 0 has 1 users, 2 tables",
                      "extent 2 has 2 references, 1 holders"}));
}

TEST(InvariantsTest, PagesThatAreNotWholeAreHeldOnTheHost) {
  KvSnapshot snapshot = SoundCache();
  snapshot.tables[0].pages[0] = ExtentId(0xffffffff);
  snapshot.tables[0].far_pages = {ExtentId(1)};
  snapshot.lent = {ExtentId(0)};
  snapshot.host = {.num_free = 1,
                   .num_in_use = 1,
                   .references = {0, 1},
                   .is_free = {true, false}};
  EXPECT_EQ(BrokenInvariants(snapshot), Messages());
  snapshot.lent = {};
  snapshot.host.references[1] = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"extent 0 has 2 references, 1 holders",
                      "host extent 1 has 2 references, 1 holders"}));
  snapshot.lent = {ExtentId(0)};
  snapshot.host.references[1] = 1;
  snapshot.tables[0].num_sealed = 31;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"page 0 of sequence 5 has extent 4294967295 and 1 of the "
                      "host, 31 tokens are sealed"}));
  snapshot.tables[0].num_sealed = 32;
  snapshot.tables[0].pages[0] = ExtentId(0);
  snapshot.lent = {};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"page 0 of sequence 5 has extent 0 and 1 of the host, 32 "
                      "tokens are sealed"}));
}

TEST(InvariantsTest, ReferencesAreHolders) {
  KvSnapshot snapshot = SoundCache();
  snapshot.device.references[0] = 1;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"extent 0 has 1 references, 2 holders"}));
  snapshot = SoundCache();
  snapshot.device.is_free = {false, false, false, true};
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"extent 2 is in use with 0 references",
                      "extent 3 is free with 1 references"}));
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
  snapshot.tables[1].pages[1] = ExtentId(0);
  snapshot.device.references = {3, 1, 0, 0};
  snapshot.device.is_free = {false, false, true, true};
  snapshot.device.num_free = snapshot.device.num_in_use = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"sequence 8 holds extent 0 twice"}));
  snapshot.tables[1].pages[1] = ExtentId(4);
  snapshot.device.references[0] = 2;
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"sequence 8 holds extent 4 of 4"}));
}

TEST(InvariantsTest, APageUnderTheStepsHandHasOneOwner) {
  KvSnapshot snapshot = SoundCache();
  snapshot.tables[0].num_sealed = 31;  // the last token of page 0 is pending
  EXPECT_EQ(BrokenInvariants(snapshot),
            Messages({"sequence 5 may be writing page 0, whose extent 0 has 2 "
                      "owners"}));
}

}  // namespace
}  // namespace winnow
