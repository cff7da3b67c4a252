#include "engine/selection/read_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/ids.h"

namespace winnow {
namespace {

constexpr int kHeads = 12;
constexpr int kCapacity = 40;

// Lists of one row, and a place for them.
struct Lists {
  std::vector<Pick> picks = std::vector<Pick>(kHeads * kCapacity);
  std::vector<int32_t> num_picks = std::vector<int32_t>(kHeads);
  int32_t num_lists = 1;

  PickLists AsViews(int row) {
    return {.first_row = row,
            .picks = MakeView(picks.data(), Dtype::kUInt32,
                              {1, kHeads, kCapacity, 2}),
            .num_picks = MakeView(num_picks.data(), Dtype::kInt32, {1, kHeads}),
            .num_lists = MakeView(&num_lists, Dtype::kInt32, {1})};
  }
};

Lists DrawLists(std::mt19937_64& random, int context) {
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<uint64_t>(end));
  };
  Lists lists;
  constexpr int kNumLists[] = {1, 2, 4, 12};
  lists.num_lists = kNumLists[below(4)];
  const int num_pages = static_cast<int>(PagesFor(context));
  for (int list = 0; list < lists.num_lists; ++list) {
    if (below(8) == 0) {
      lists.num_picks[static_cast<size_t>(list)] = kEveryPage;
      continue;
    }
    std::vector<uint32_t> pages;
    for (int page = 0; page < num_pages; ++page) {
      if (below(3) == 0 && std::ssize(pages) < kCapacity) {
        pages.push_back(static_cast<uint32_t>(page));
      }
    }
    lists.num_picks[static_cast<size_t>(list)] =
        static_cast<int32_t>(pages.size());
    for (size_t i = 0; i < pages.size(); ++i) {
      auto tokens = static_cast<uint32_t>(random());
      if (below(2) == 0) tokens = ~0u;
      if (below(4) == 0) tokens = 1u << below(32);
      if (below(4) == 0) tokens = 0xFF00u << below(17);
      lists.picks[static_cast<size_t>(list * kCapacity) + i] = {
          pages[i], std::max(tokens, 1u)};
    }
  }
  return lists;
}

// By token and head, asked one by one.
std::vector<int> CountHeads(const Lists& lists, VisibleTokens visible,
                            int context) {
  std::vector<int> heads(static_cast<size_t>(context), 0);
  for (int token = visible.first; token < visible.end; ++token) {
    for (int head = 0; head < kHeads; ++head) {
      const int list = head / (kHeads / lists.num_lists);
      const int32_t num = lists.num_picks[static_cast<size_t>(list)];
      bool reads = num == kEveryPage;
      for (int i = 0; i < num; ++i) {
        const Pick& pick =
            lists.picks[static_cast<size_t>(list * kCapacity + i)];
        reads = reads || (static_cast<int>(pick.page) == token / kPageTokens &&
                          ((pick.tokens >> (token % kPageTokens)) & 1) != 0);
      }
      heads[static_cast<size_t>(token)] += reads ? 1 : 0;
    }
  }
  return heads;
}

TEST(ReadRangesTest, SayOfEveryTokenHowManyHeadsReadIt) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const int context = 1 + static_cast<int>(random() % 900);
    Lists lists = DrawLists(random, context);
    VisibleTokens visible = {.first = 0, .end = context};
    if (random() % 3 == 0) {
      visible.first =
          static_cast<int>(random() % static_cast<uint64_t>(context));
    }
    const int row = static_cast<int>(random() % 5);
    const auto ranges = RangesRead(lists.AsViews(row), row, visible, kHeads);
    std::vector<int> told(static_cast<size_t>(context), 0);
    for (size_t i = 0; i < ranges.size(); ++i) {
      const ReadRange& range = ranges[i];
      ASSERT_LT(range.first, range.end);
      ASSERT_GT(range.num_heads, 0);
      if (i > 0) {
        ASSERT_GE(range.first, ranges[i - 1].end);
        // Neighbours differ: there are no more ranges than need be.
        ASSERT_TRUE(range.first > ranges[i - 1].end ||
                    range.num_heads != ranges[i - 1].num_heads);
      }
      for (int token = range.first; token < range.end; ++token) {
        ASSERT_LT(token, context);
        told[static_cast<size_t>(token)] += range.num_heads;
      }
    }
    ASSERT_EQ(told, CountHeads(lists, visible, context)) << "round " << round;
  }
}

TEST(ReadRangesTest, KeepsWhatMostHeadsRead) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 1000; ++round) {
    std::vector<ReadRange> all;
    int token = 0;
    for (uint64_t i = random() % 30; i > 0; --i) {
      const int first = token + static_cast<int>(random() % 3);
      token = first + 1 + static_cast<int>(random() % 40);
      all.push_back({first, token, 1 + static_cast<int>(random() % 4)});
    }
    const size_t most = 1 + random() % 30;
    std::vector<ReadRange> kept = all;
    EXPECT_EQ(KeepMostRead(most, &kept), all.size() > most);
    ASSERT_EQ(kept.size(), std::min(most, all.size()));
    ASSERT_TRUE(std::ranges::is_sorted(kept, {}, &ReadRange::first));
    // Whatever was left out comes behind all that was kept.
    for (const ReadRange& out : all) {
      if (std::ranges::find(kept, out) != kept.end()) continue;
      for (const ReadRange& in : kept) {
        ASSERT_TRUE(in.num_heads > out.num_heads ||
                    (in.num_heads == out.num_heads && in.first < out.first));
      }
    }
  }
}

}  // namespace
}  // namespace winnow
