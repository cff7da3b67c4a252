#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <utility>

#include "kv/testing/kv_cache_case.h"

namespace winnow {
namespace {

// A KvCache whose invariants are checked after every operation of a test, and
// which closes what is left open.
class KvCacheTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (SequenceId sequence : {kA, kB, kC, kD}) {
      if (cache_.is_open(sequence)) cache_.Close(sequence);
    }
    ExpectSound();
    EXPECT_EQ(cache_.num_free_pages(), cache_.num_pages());
  }

  void ExpectSound() {
    EXPECT_EQ(BrokenInvariants(cache_.Snapshot()), std::vector<std::string>());
  }

  // Reserves, commits and seals. Returns the copies, or nothing if no room.
  std::optional<std::vector<KvBlockCopy>> Step(std::vector<Growth> growths) {
    std::optional<Reservation> reservation = cache_.Reserve(growths);
    ExpectSound();
    if (!reservation) return std::nullopt;
    std::vector<KvBlockCopy> copies(reservation->copies().begin(),
                                    reservation->copies().end());
    reservation->Commit();
    for (const auto& [sequence, num_tokens] : growths) {
      cache_.Seal(sequence, cache_.num_tokens(sequence));
    }
    ExpectSound();
    return copies;
  }

  std::vector<uint32_t> Pages(SequenceId sequence) {
    std::vector<uint32_t> ids;
    for (KvBlockId id : cache_.pages(sequence)) ids.push_back(id.value());
    return ids;
  }

  using Copies = std::vector<KvBlockCopy>;
  using Ids = std::vector<uint32_t>;
  KvCache cache_{8};
};

TEST_F(KvCacheTest, ASequenceGrowsPageByPage) {
  cache_.Open(kA);
  EXPECT_EQ(Step({{kA, 40}}), Copies());
  EXPECT_EQ(Pages(kA), Ids({0, 1}));
  EXPECT_EQ(Step({{kA, 24}}), Copies());  // fills the open page
  EXPECT_EQ(Pages(kA), Ids({0, 1}));
  EXPECT_EQ(Step({{kA, 1}}), Copies());
  EXPECT_EQ(Pages(kA), Ids({0, 1, 2}));
  EXPECT_EQ(cache_.num_tokens(kA), 65);
  EXPECT_EQ(cache_.num_free_pages(), 5);
}

TEST_F(KvCacheTest, ReserveIsAllOrNothingAndSaysWhatIsMissing) {
  cache_.Open(kA);
  cache_.Open(kB);
  const std::vector<Growth> growths = {{kA, 7 * 32}, {kB, 2 * 32}};
  EXPECT_FALSE(cache_.CanGrow(growths));
  EXPECT_EQ(cache_.Need(growths).num_needed, 9);
  EXPECT_EQ(cache_.Need(growths).num_free, 8);
  EXPECT_EQ(cache_.Need(growths).deficit(), 1);
  const KvSnapshot before = cache_.Snapshot();
  EXPECT_EQ(Step(growths), std::nullopt);
  EXPECT_TRUE(cache_.Snapshot() == before);
  EXPECT_EQ(Step({{kA, 7 * 32}, {kB, 32}}), Copies());
  EXPECT_EQ(cache_.num_free_pages(), 0);
  EXPECT_EQ(Step({{kB, 0}}), Copies());  // nothing needs nothing
}

TEST_F(KvCacheTest, ADroppedReservationLeavesNoTrace) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 40}}));
  cache_.Fork(kA, kB);
  const KvSnapshot before = cache_.Snapshot();
  {
    std::optional<Reservation> reservation =
        cache_.Reserve(std::vector<Growth>{{kA, 60}, {kB, 1}});
    ASSERT_TRUE(reservation);
    const Reservation moved = std::move(*reservation);
    EXPECT_EQ(moved.copies().size(), 1u);
    EXPECT_EQ(cache_.num_tokens(kA), 100);
    ExpectSound();
  }
  EXPECT_TRUE(cache_.Snapshot() == before);
}

TEST_F(KvCacheTest, TheOpenPageIsCopiedOnWriteAndOnlyThat) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 40}}));
  cache_.Fork(kA, kB);
  EXPECT_EQ(Pages(kB), Ids({0, 1}));
  EXPECT_EQ(cache_.num_free_pages(), 6);
  EXPECT_EQ(Step({{kB, 1}}), Copies({{KvBlockId(1), KvBlockId(2), 8}}));
  EXPECT_EQ(Pages(kA), Ids({0, 1}));
  EXPECT_EQ(Pages(kB), Ids({0, 2}));
  EXPECT_EQ(Step({{kA, 1}}), Copies());  // the last owner of the open page
  EXPECT_EQ(Pages(kA), Ids({0, 1}));
}

TEST_F(KvCacheTest, AFullLastPageNeedsNoCopy) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 64}}));
  cache_.Fork(kA, kB);
  EXPECT_EQ(Step({{kA, 1}, {kB, 1}}), Copies());
  EXPECT_EQ(Pages(kA), Ids({0, 1, 2}));
  EXPECT_EQ(Pages(kB), Ids({0, 1, 3}));
}

TEST_F(KvCacheTest, OfThreeWritersInOneStepTheLastKeepsThePage) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 5}}));
  cache_.Fork(kA, kB);
  cache_.Fork(kB, kC);
  const std::vector<Growth> growths = {{kC, 1}, {kA, 1}, {kB, 1}};
  EXPECT_EQ(cache_.Need(growths).num_needed, 2);
  EXPECT_EQ(Step(growths), Copies({{KvBlockId(0), KvBlockId(1), 5},
                                   {KvBlockId(0), KvBlockId(2), 5}}));
  EXPECT_EQ(Pages(kB), Ids({0}));
}

TEST_F(KvCacheTest, TwoOfThreeWritersBothCopy) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 5}}));
  cache_.Fork(kA, kB);
  cache_.Fork(kA, kC);
  EXPECT_EQ(Step({{kA, 40}, {kB, 0}, {kC, 1}}),
            Copies({{KvBlockId(0), KvBlockId(1), 5},
                    {KvBlockId(0), KvBlockId(3), 5}}));
  EXPECT_EQ(Pages(kA), Ids({1, 2}));
  EXPECT_EQ(Pages(kB), Ids({0}));
}

TEST_F(KvCacheTest, CopyOnWriteMayBeWhatDoesNotFit) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 8 * 32 - 1}}));
  cache_.Fork(kA, kB);
  EXPECT_EQ(cache_.Need(std::vector<Growth>{{kB, 1}}).deficit(), 1);
  EXPECT_EQ(Step({{kB, 1}}), std::nullopt);
  cache_.Close(kA);
  EXPECT_EQ(Step({{kB, 1}}), Copies());
}

TEST_F(KvCacheTest, TruncateDropsWholePagesAndKeepsTheTail) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 100}}));
  cache_.Fork(kA, kB);
  cache_.Truncate(kB, 33);
  ExpectSound();
  EXPECT_EQ(Pages(kB), Ids({0, 1}));
  EXPECT_EQ(Pages(kA), Ids({0, 1, 2, 3}));
  EXPECT_EQ(cache_.num_free_pages(), 4);  // the parent still holds them
  EXPECT_EQ(cache_.num_sealed(kB), 33);
  EXPECT_EQ(Step({{kB, 1}}), Copies({{KvBlockId(1), KvBlockId(4), 1}}));
  cache_.Truncate(kA, 32);
  ExpectSound();
  EXPECT_EQ(cache_.num_free_pages(), 6);
}

TEST_F(KvCacheTest, SharedPagesOutliveTheirFirstOwner) {
  cache_.Open(kA);
  ASSERT_TRUE(Step({{kA, 70}}));
  cache_.Fork(kA, kB);
  cache_.Close(kA);
  ExpectSound();
  EXPECT_EQ(Pages(kB), Ids({0, 1, 2}));
  EXPECT_EQ(cache_.num_sequences(), 1);
  cache_.Close(kB);
  EXPECT_EQ(cache_.num_free_pages(), 8);
}

TEST_F(KvCacheTest, OwnedIsNotSealed) {
  cache_.Open(kA);
  std::optional<Reservation> reservation =
      cache_.Reserve(std::vector<Growth>{{kA, 40}});
  reservation->Commit();
  EXPECT_EQ(cache_.num_tokens(kA), 40);
  EXPECT_EQ(cache_.num_sealed(kA), 0);
  cache_.Seal(kA, 39);
  EXPECT_DEATH(cache_.Fork(kA, kB), "parent=1 num_sealed=39 num_tokens=40");
  cache_.Truncate(kA, 39);  // what never came true may be forgotten
  cache_.Fork(kA, kB);
  EXPECT_EQ(cache_.num_sealed(kB), 39);
}

using KvCacheDeathTest = KvCacheTest;

TEST_F(KvCacheDeathTest, NothingElseChangesWhileAReservationIsOpen) {
  cache_.Open(kA);
  std::optional<Reservation> reservation =
      cache_.Reserve(std::vector<Growth>{{kA, 1}});
  ASSERT_TRUE(reservation);
  EXPECT_DEATH((void)cache_.Reserve({}), "a reservation is open");
  EXPECT_DEATH(cache_.Open(kB), "a reservation is open");
  EXPECT_DEATH(cache_.Fork(kA, kB), "a reservation is open");
  EXPECT_DEATH(cache_.Seal(kA, 1), "a reservation is open");
  EXPECT_DEATH(cache_.Truncate(kA, 0), "a reservation is open");
  EXPECT_DEATH(cache_.Close(kA), "a reservation is open");
  reservation->Commit();
  EXPECT_DEATH(reservation->Commit(), "CHECK failed");
}

TEST_F(KvCacheDeathTest, ABugStopsTheProgram) {
  cache_.Open(kA);
  EXPECT_DEATH(cache_.Open(kA), "sequence=1 is open");
  EXPECT_DEATH(cache_.Fork(kA, kA), "sequence=1 is open");
  EXPECT_DEATH(cache_.Fork(kB, kC), "sequence=2 is not open");
  EXPECT_DEATH(cache_.Close(kB), "sequence=2 is not open");
  EXPECT_DEATH(cache_.Truncate(kA, 1), "sequence=1 num_tokens=1 of 0");
  EXPECT_DEATH((void)Step({{kA, 1}, {kA, 1}}), "sequence=1 is named twice");
  EXPECT_DEATH((void)Step({{kA, -1}}), "num_tokens=-1");
  EXPECT_DEATH(
      {
        KvCache leaking(2);
        leaking.Open(kC);
      },
      "1 sequences are still open, the first is 3");
}

}  // namespace
}  // namespace winnow
