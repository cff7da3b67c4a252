#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <numeric>

namespace winnow {
namespace {

using Ids = std::vector<uint32_t>;
constexpr PageKind kPrompt = 0, kOther = 7;
constexpr std::array<PageKind, 1> kPrompts = {kPrompt};

// Pages of one token each, 32 times.
std::vector<int32_t> Text(const std::vector<int32_t>& pages) {
  std::vector<int32_t> tokens;
  for (const int32_t page : pages) {
    tokens.insert(tokens.end(), kPageTokens, page);
  }
  return tokens;
}

std::vector<KvBlockId> KvBlocksOf(const Ids& ids) {
  return {ids.begin(), ids.end()};
}

Ids Values(const std::vector<KvBlockId>& kv_blocks) {
  Ids ids;
  for (const KvBlockId kv_block : kv_blocks) ids.push_back(kv_block.value());
  return ids;
}

class PrefixIndexTest : public testing::Test {
 protected:
  void TearDown() override { ExpectSound(index_); }

  static void ExpectSound(const PrefixIndex& index) {
    EXPECT_EQ(BrokenInvariants(index.Snapshot()), std::vector<std::string>());
  }

  Ids Enter(const std::vector<int32_t>& pages, const Ids& kv_blocks,
            bool passes = false, std::string_view root = "root") {
    const std::vector<int32_t> tokens = Text(pages);
    return Values(index_.Enter({root, tokens},
                               std::vector(kv_blocks.size(), kPrompt),
                               KvBlocksOf(kv_blocks), passes));
  }
  // What a sequence leaves behind that held these, some from the index.
  void Leave(const std::vector<int32_t>& pages, const Ids& kv_blocks) {
    index_.Pin(KvBlocksOf(kv_blocks));
    Enter(pages, kv_blocks, /*passes=*/true);
    index_.Unpin(KvBlocksOf(kv_blocks));
  }
  Ids Find(const std::vector<int32_t>& pages, std::string_view root = "root",
           std::span<const PageKind> kinds = kPrompts) const {
    const std::vector<int32_t> tokens = Text(pages);
    return Values(index_.Find({root, tokens}, pages.size(), kinds).kv_blocks);
  }
  Ids EvictAll() {
    Ids ids, foretold;
    for (const PagePlaces& page : index_.NextToEvict(20)) {
      foretold.push_back(page.device->value());
    }
    while (const auto kv_block = index_.Evict()) {
      ids.push_back(kv_block->value());
      ExpectSound(index_);
    }
    EXPECT_EQ(foretold, ids);
    return ids;
  }

  PrefixIndex index_{20};
};

TEST_F(PrefixIndexTest, FindsTheLongestBeginning) {
  EXPECT_EQ(Enter({1, 2, 3}, {5, 6, 7}), Ids({5, 6, 7}));
  EXPECT_EQ(Enter({1, 2, 4, 5}, {5, 6, 8, 9}), Ids({8, 9}));
  EXPECT_EQ(Find({1, 2, 3}), Ids({5, 6, 7}));
  EXPECT_EQ(Find({1, 2, 4, 5, 6}), Ids({5, 6, 8, 9}));
  EXPECT_EQ(Find({1, 2}), Ids({5, 6}));
  EXPECT_EQ(Find({1, 3}), Ids({5}));
  EXPECT_EQ(Find({2, 3}), Ids());
  EXPECT_EQ(Find({}), Ids());
}

TEST_F(PrefixIndexTest, OnePageMayFollowSeveralAndOneTokenTellsThemApart) {
  Enter({1, 9}, {0, 1});
  Enter({2, 9}, {2, 3});
  EXPECT_EQ(Find({1, 9}), Ids({0, 1}));
  EXPECT_EQ(Find({2, 9}), Ids({2, 3}));
  for (const size_t at : {0u, 31u, 32u, 63u}) {
    std::vector<int32_t> tokens = Text({1, 9});
    tokens[at] = -5;
    const PrefixHit hit = index_.Find({"root", tokens}, 2, kPrompts);
    EXPECT_EQ(hit.kv_blocks.size(), at / 32) << at;
  }
}

TEST_F(PrefixIndexTest, RootsAndKindsAreApart) {
  Enter({1}, {0}, false, "a");
  EXPECT_EQ(Find({1}, "b"), Ids());
  EXPECT_EQ(Find({1}, ""), Ids());
  EXPECT_EQ(Find({1}, "a", std::array{kOther}), Ids());
  const std::vector<int32_t> tokens = Text({1, 2});
  index_.Enter({"b", tokens}, std::array{kOther, kPrompt}, KvBlocksOf({1, 2}),
               false);
  EXPECT_EQ(Find({1, 2}, "b"), Ids());
  const PrefixHit hit =
      index_.Find({"b", tokens}, 2, std::array{kPrompt, kOther});
  EXPECT_EQ(Values(hit.kv_blocks), Ids({1, 2}));
  EXPECT_EQ(hit.kinds, (std::vector{kOther, kPrompt}));
}

TEST_F(PrefixIndexTest, TheFirstKindIsPreferred) {
  const std::vector<int32_t> tokens = Text({1});
  index_.Enter({"r", tokens}, std::array{kOther}, KvBlocksOf({1}), false);
  index_.Enter({"r", tokens}, std::array{kPrompt}, KvBlocksOf({2}), false);
  EXPECT_EQ(Find({1}, "r", std::array{kPrompt, kOther}), Ids({2}));
  EXPECT_EQ(Find({1}, "r", std::array{kOther, kPrompt}), Ids({1}));
}

TEST_F(PrefixIndexTest, WhatRunsStopsAtThePagesOfOthersAndWhatEndsPassesThem) {
  Leave({1, 2}, {0, 1});
  EXPECT_EQ(Enter({1, 2, 3}, {4, 5, 6}), Ids());
  EXPECT_EQ(Enter({1, 2, 3}, {4, 5, 6}, /*passes=*/true), Ids({6}));
  index_.Unpin(KvBlocksOf({4, 5, 6}));
  EXPECT_EQ(Find({1, 2, 3}), Ids({0, 1, 6}));
}

TEST_F(PrefixIndexTest, EvictsTheLeastRecentlyUsedLeaf) {
  Leave({1, 2}, {0, 1});
  Leave({1, 3}, {0, 2});
  Leave({4}, {3});
  EXPECT_EQ(index_.num_idle(), 4);
  const auto again = KvBlocksOf({0, 1});
  index_.Pin(again);
  EXPECT_EQ(index_.num_idle(), 2);
  index_.Unpin(again);
  EXPECT_EQ(EvictAll(), Ids({2, 3, 1, 0}));
  EXPECT_EQ(index_.num_pages(), 0);
}

TEST_F(PrefixIndexTest, WhatIsInUseIsKept) {
  Leave({1, 2, 3}, {0, 1, 2});
  const auto used = KvBlocksOf({0, 1});
  index_.Pin(used);
  index_.Pin(used);
  EXPECT_EQ(index_.num_repeated(), 2);
  EXPECT_EQ(index_.NumUsed(KvBlocksOf({0, 1, 2, 3})), 2);
  EXPECT_EQ(EvictAll(), Ids({2}));
  index_.Unpin(used);
  EXPECT_EQ(EvictAll(), Ids());
  index_.Unpin(used);
  EXPECT_EQ(EvictAll(), Ids({1, 0}));
}

TEST_F(PrefixIndexTest, PagesOfOneHashAreAMissAndNeverAnotherPage) {
  PrefixIndex narrow(20, /*hash_mask=*/0);
  const std::vector<int32_t> first = Text({1, 1}), second = Text({2});
  const std::vector<PageKind> kinds(2, kPrompt);
  EXPECT_EQ(Values(narrow.Enter({"r", first}, kinds, KvBlocksOf({0, 1}), true)),
            Ids({0}));
  EXPECT_EQ(
      Values(narrow.Enter({"r", second}, kPrompts, KvBlocksOf({2}), true)),
      Ids());
  EXPECT_EQ(
      Values(narrow.Enter({"s", second}, kPrompts, KvBlocksOf({2}), true)),
      Ids());
  EXPECT_EQ(Values(narrow.Find({"r", first}, 2, kPrompts).kv_blocks), Ids({0}));
  EXPECT_EQ(narrow.Find({"r", second}, 1, kPrompts).kv_blocks.size(), 0u);
  EXPECT_EQ(narrow.Find({"s", first}, 1, kPrompts).kv_blocks.size(), 0u);
  EXPECT_EQ(narrow.Snapshot().roots.size(), 1u);
  ExpectSound(narrow);
}

TEST_F(PrefixIndexTest, AnKvBlockStandsForOnePage) {
  Enter({1}, {0});
  EXPECT_DEATH(Enter({2}, {0}), "KV block=0 stands for another page");
}

}  // namespace
}  // namespace winnow
