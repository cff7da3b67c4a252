// Pages of sequences that go on leave the device and come back, and KV blocks
// are lent.
#include <gtest/gtest.h>

#include "kv/testing/kv_cache_case.h"
#include "kv/tiered_texts.h"

namespace winnow {
namespace {

using Copies = TierCopies;

class KvCacheMoveTest : public TieredTexts {
 protected:
  // Its text is read, and for others to find.
  void Read(SequenceId sequence, const std::vector<int32_t>& words) {
    cache_->Open(sequence, Find(words));
    Grow(sequence, NumLeft(sequence, words));
    const std::vector<int32_t> tokens = Text(words);
    cache_->Enter(sequence, {"", tokens},
                  std::vector<PageKind>(words.size(), 0));
    ExpectSound();
  }
  void Move(SequenceId sequence, int64_t end_page) {
    cache_->MoveToHost(sequence, cache_->Movable(sequence, end_page));
    ExpectSound();
  }
  // By page: 'd'evice, 'h'ost.
  std::string Tables(SequenceId sequence) {
    std::string places;
    for (const KvBlockId kv_block : cache_->pages(sequence)) {
      places += kv_block == kNoKvBlock ? 'h' : 'd';
    }
    return places;
  }
};

TEST_F(KvCacheMoveTest, PagesOfItsOwnLeaveAndTheTailStays) {
  Make(6, 4);
  cache_->Open(kA);
  Grow(kA, 3 * kPageTokens + 5);
  EXPECT_EQ(cache_->Movable(kA, 3), (PageRange{0, 3, 3}));
  Move(kA, 2);
  EXPECT_EQ(Tables(kA), "hhdd");
  EXPECT_EQ(Decided(), (Copies{ToHost(0, 0), ToHost(1, 1)}));
  EXPECT_EQ(cache_->num_free_pages(), 4);
  EXPECT_EQ(cache_->NumWhole(kA), 2);
  EXPECT_EQ(cache_->NumOnHost(kA), 2);
  EXPECT_EQ(cache_->num_available_host_pages(), 2);
  Grow(kA, kPageTokens);
  EXPECT_EQ(cache_->Movable(kA, 4), (PageRange{2, 4, 2}));
  Move(kA, 4);
  EXPECT_EQ(Tables(kA), "hhhhd");
  EXPECT_EQ(cache_->Movable(kA, 4).num_whole, 0);
  EXPECT_EQ(cache_->num_available_host_pages(), 0);
  cache_->Close(kA);
  EXPECT_EQ(cache_->num_free_pages(), 6);
  EXPECT_EQ(cache_->num_free_host_pages(), 4);
}

TEST_F(KvCacheMoveTest, WhatOthersHoldStays) {
  Make(8, 8);
  Read(kA, {1, 2, 3, 4});
  cache_->Open(kB, Find({1, 2}));
  EXPECT_EQ(cache_->Movable(kA, 4), (PageRange{2, 4, 2}));
  EXPECT_EQ(cache_->Movable(kA, 2).num_whole, 0);
  EXPECT_EQ(cache_->Movable(kB, 2).num_whole, 0);
  Move(kA, 4);
  EXPECT_EQ(Tables(kA), "ddhh");
  cache_->Close(kB);
  EXPECT_EQ(cache_->Movable(kA, 4), (PageRange{0, 4, 2}));
  Move(kA, 4);
  EXPECT_EQ(Tables(kA), "hhhh");
  cache_->Close(kA);
}

// For the index a page that has left is idle: others find it as long as there
// is room, on the device, then on the host, where it is the same KV block.
TEST_F(KvCacheMoveTest, OthersGoOnFindingWhatHasLeft) {
  Make(4, 6);
  Read(kA, {1, 2, 3});
  Move(kA, 3);
  EXPECT_EQ(cache_->num_free_pages(), 4);
  EXPECT_EQ(Places({1, 2, 3}), "ddd");
  EXPECT_EQ(Decided().size(), 3u);
  while (cache_->ReclaimIdle()) {
  }
  EXPECT_EQ(Decided(), Copies());
  EXPECT_EQ(Places({1, 2, 3}), "hhh");
  EXPECT_EQ(cache_->num_free_host_pages(), 3);
  cache_->Open(kB, Find({1, 2}));
  EXPECT_EQ(Decided().size(), 2u);
  EXPECT_EQ(Tables(kB), "dd");
  ExpectSound();
  // Both hold the host's copy then, and it is free when both have ended and
  // the index needs it no more.
  Move(kB, 2);
  EXPECT_EQ(Decided(), Copies());
  EXPECT_EQ(cache_->num_free_host_pages(), 3);
  cache_->Close(kA);
  ExpectSound();
  cache_->Close(kB);
  EXPECT_EQ(Places({1, 2, 3}), "ddh");
}

// A page that is kept in use would be below idle ones.
TEST_F(KvCacheMoveTest, WhatStaysBehindIsForgottenByTheIndex) {
  Make(8, 8);
  Read(kA, {1, 2, 3, 4});
  Move(kA, 2);
  EXPECT_EQ(Places({1, 2, 3, 4}), "dd");
  EXPECT_EQ(Tables(kA), "hhdd");
  cache_->Close(kA);
  EXPECT_EQ(cache_->num_free_pages(), 8);
}

TEST_F(KvCacheMoveTest, NothingLeavesAboveWhatOthersHave) {
  Make(8, 8);
  Read(kA, {1, 2});
  Read(kB, {1, 2, 3});
  cache_->Close(kB);
  // Page 3 would be below page 2 when that is forgotten.
  EXPECT_EQ(cache_->Movable(kA, 1).num_whole, 0);
  EXPECT_EQ(cache_->Movable(kA, 2).num_whole, 2);
  cache_->Close(kA);
}

TEST_F(KvCacheMoveTest, TheHostMakesRoomAndNeverTakesWhatIsHeld) {
  Make(8, 3);
  Read(kB, {7, 8});
  cache_->Close(kB);
  while (cache_->ReclaimIdle()) {
  }
  EXPECT_EQ(Places({7, 8}), "hh");
  Read(kA, {1, 2, 3});
  Move(kA, 3);
  EXPECT_EQ(Places({7, 8}), "");
  EXPECT_EQ(cache_->num_available_host_pages(), 0);
  (void)Decided();
  // The host is full: what leaves the device now is lost.
  Read(kB, {5, 6});
  cache_->Close(kB);
  while (cache_->ReclaimIdle()) {
  }
  EXPECT_EQ(Places({5, 6}), "");
  EXPECT_EQ(Tables(kA), "hhh");
  EXPECT_EQ(Decided(), Copies());
  cache_->Close(kA);
  EXPECT_EQ(Places({1, 2, 3}), "hhh");
}

// Its only copy would go from above pages of the host.
TEST_F(KvCacheMoveTest, WhatIsBelowGoesWithAPageThatFindsNoRoomOnTheHost) {
  Make(8, 3);
  Read(kB, {7});
  cache_->Close(kB);
  EXPECT_TRUE(cache_->ReclaimIdle());
  Read(kA, {1, 2});
  Move(kA, 2);
  EXPECT_TRUE(cache_->ReclaimIdle());
  EXPECT_EQ(Places({1, 2}), "dh");
  // Takes the place of page 7, after the index has given up its duplicate.
  Read(kB, {5});
  Move(kB, 1);
  EXPECT_EQ(Places({7}), "");
  (void)Decided();
  EXPECT_TRUE(cache_->ReclaimIdle());
  EXPECT_EQ(Decided(), Copies());
  EXPECT_EQ(Places({1, 2}), "");
  EXPECT_EQ(Tables(kA), "hh");
  ExpectSound();
  cache_->Close(kA);
  cache_->Close(kB);
}

// A page of the device would lie below one of the host.
TEST_F(KvCacheMoveTest, WhoEndsLeavesPagesOfTheHostToo) {
  Make(8, 8);
  Read(kA, {1, 2});
  Grow(kA, 2 * kPageTokens);
  Move(kA, 3);
  const std::vector<int32_t> tokens = Text({1, 2, 3, 4});
  cache_->Close(kA, {"", tokens}, std::vector<PageKind>(4, 0));
  EXPECT_EQ(Places({1, 2, 3, 4}), "ddh");
  EXPECT_EQ(cache_->num_free_pages(), 8);
  EXPECT_EQ(cache_->num_free_host_pages(), 5);
  cache_->Open(kB, Find({1, 2, 3}));
  EXPECT_EQ(Tables(kB), "ddd");
  EXPECT_EQ(Places({1, 2, 3, 4}), "ddd");
  cache_->Close(kB);
}

TEST_F(KvCacheMoveTest, PagesComeBackFromTheFirstOn) {
  Make(6, 4);
  cache_->Open(kA);
  Grow(kA, 4 * kPageTokens + 5);
  Move(kA, 4);
  (void)Decided();
  EXPECT_EQ(Tables(kA), "hhhhd");
  EXPECT_EQ(cache_->MoveToDevice(kA, 1), 1);
  ExpectSound();
  EXPECT_EQ(Tables(kA), "dhhhd");
  EXPECT_EQ(Decided(), (Copies{ToDevice(0, 0)}));
  EXPECT_EQ(cache_->num_available_host_pages(), 1);
  EXPECT_EQ(cache_->num_free_host_pages(), 1);
  EXPECT_EQ(cache_->MoveToDevice(kA, 3), 3);
  EXPECT_EQ(Tables(kA), "ddddd");
  EXPECT_TRUE(cache_->far_pages(kA).empty());
  EXPECT_EQ(cache_->num_free_host_pages(), 4);
  // And leave once more.
  Move(kA, 3);
  EXPECT_EQ(Tables(kA), "hhhdd");
  cache_->Close(kA);
  EXPECT_EQ(cache_->num_free_pages(), 6);
}

TEST_F(KvCacheMoveTest, WhatIsStillThereIsNotCopied) {
  Make(6, 6);
  Read(kA, {1, 2, 3});
  Move(kA, 3);
  (void)Decided();
  // Page 3 leaves the device for the index too; 1 and 2 are another's besides.
  EXPECT_TRUE(cache_->ReclaimIdle());
  cache_->Open(kB, Find({1, 2}));
  EXPECT_EQ(Places({1, 2, 3}), "ddh");
  EXPECT_EQ(cache_->MoveToDevice(kA, 3), 1);
  ExpectSound();
  EXPECT_EQ(Decided().size(), 1u);
  EXPECT_EQ(Places({1, 2, 3}), "ddd");
  EXPECT_EQ(cache_->pages(kA)[0], cache_->pages(kB)[0]);
  // The host's copies are the index's duplicates from here on.
  EXPECT_EQ(cache_->num_available_host_pages(), 6);
  EXPECT_EQ(cache_->NumOnHost(kA), 3);
  cache_->Close(kB);
  EXPECT_EQ(cache_->Movable(kA, 3).num_whole, 3);
  Move(kA, 3);
  EXPECT_EQ(Decided(), Copies());
  cache_->Close(kA);
}

// Where the index has given up the host's copy it does not know the page by it
// any more.
TEST_F(KvCacheMoveTest, WhatTheIndexGaveUpComesBackToItsSequenceAlone) {
  Make(8, 4);
  Read(kB, {7});
  cache_->Close(kB);
  EXPECT_TRUE(cache_->ReclaimIdle());
  Read(kA, {1, 2});
  Move(kA, 2);
  // Takes the place of page 7, after the duplicates of pages 1 and 2.
  Read(kB, {5, 6});
  Move(kB, 2);
  EXPECT_EQ(Places({7}), "");
  (void)Decided();
  EXPECT_EQ(Places({1, 2}), "dd");
  EXPECT_EQ(cache_->MoveToDevice(kA, 2), 2);
  ExpectSound();
  EXPECT_EQ(Tables(kA), "dd");
  EXPECT_EQ(Places({1, 2}), "dd");
  EXPECT_NE(cache_->pages(kA)[0], Find({1, 2}).kv_blocks[0]);
  EXPECT_EQ(cache_->num_free_host_pages(), 2);
  cache_->Close(kA);
  cache_->Close(kB);
}

// The index knows page 2, but not that the sequence has page 1: in use it would
// be below an idle page.
TEST_F(KvCacheMoveTest, WhatIsBelowAPageOfItsOwnComesBackAsItsOwn) {
  Make(8, 3);
  Read(kB, {7});
  cache_->Close(kB);
  EXPECT_TRUE(cache_->ReclaimIdle());
  Read(kA, {1, 2});
  Move(kA, 2);
  for (const int32_t word : {7, 1}) {
    cache_->Open(kB, Find({word}));
    cache_->Close(kB);
  }
  // The host's room is that of page 7, after the duplicate of page 1, which was
  // used last.
  Read(kB, {8});
  Move(kB, 1);
  (void)Decided();
  EXPECT_EQ(cache_->MoveToDevice(kA, 2), 2);
  ExpectSound();
  EXPECT_EQ(Places({1, 2}), "dd");
  EXPECT_NE(cache_->pages(kA)[1], Find({1, 2}).kv_blocks[1]);
  cache_->Close(kA);
  cache_->Close(kB);
}

TEST_F(KvCacheMoveTest, WhatComesBackIsNotWhatMakesRoomForIt) {
  Make(2, 2);
  Read(kA, {1});
  Move(kA, 1);
  for (const int32_t word : {7, 8, 9}) {
    Read(kB, {word});
    cache_->Close(kB);
    if (word == 7) {
      EXPECT_TRUE(cache_->ReclaimIdle());
      EXPECT_TRUE(cache_->ReclaimIdle());
    }
  }
  EXPECT_EQ(Places({1}) + Places({7}) + Places({8}) + Places({9}), "hhdd");
  (void)Decided();
  EXPECT_EQ(cache_->MoveToDevice(kA, 1), 1);
  ExpectSound();
  EXPECT_EQ(Places({1}) + Places({7}) + Places({8}) + Places({9}), "dhd");
  EXPECT_EQ(Decided().size(), 2u);
  cache_->Close(kA);
}

TEST_F(KvCacheMoveTest, KvBlocksAreLentWhileSomeAreFree) {
  Make(3, 0);
  Read(kA, {1});
  EXPECT_EQ(cache_->Lend(), KvBlockId(1));
  EXPECT_EQ(cache_->Lend(), KvBlockId(2));
  EXPECT_EQ(cache_->Lend(), std::nullopt);
  ExpectSound();
  EXPECT_EQ(cache_->num_free_pages(), 0);
  cache_->GiveBack(KvBlockId(1));
  cache_->GiveBack(KvBlockId(2));
  cache_->Close(kA);
  // What is idle makes room.
  EXPECT_EQ(cache_->Lend(), KvBlockId(1));
  EXPECT_EQ(cache_->Lend(), KvBlockId(2));
  EXPECT_EQ(cache_->Lend(), KvBlockId(0));
  for (uint32_t kv_block = 0; kv_block < 3; ++kv_block) {
    cache_->GiveBack(KvBlockId(kv_block));
  }
}

using KvCacheMoveDeathTest = KvCacheMoveTest;

TEST_F(KvCacheMoveDeathTest, MisuseStopsTheProgram) {
  Make(8, 2);
  cache_->Open(kA);
  Grow(kA, 3 * kPageTokens + 1);
  EXPECT_DEATH(cache_->MoveToHost(kA, cache_->Movable(kA, 3)), "available=2");
  EXPECT_DEATH(cache_->MoveToHost(kA, {0, 2, 1}), "num_whole=1");
  EXPECT_DEATH((void)cache_->Movable(kA, 4), "end_page=4");
  Move(kA, 2);
  (void)Decided();
  EXPECT_DEATH(cache_->Truncate(kA, kPageTokens), "far_pages=2");
  EXPECT_DEATH(cache_->Fork(kA, kB), "far_pages=2");
  EXPECT_DEATH(cache_->MoveToDevice(kA, 3), "num_pages=3 of 2");
  EXPECT_DEATH(cache_->GiveBack(KvBlockId(7)), "KV block=7 is not lent");
  cache_->Truncate(kA, 2 * kPageTokens);
  cache_->Close(kA);
}

}  // namespace
}  // namespace winnow
