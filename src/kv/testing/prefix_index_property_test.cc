// Random operations on a PrefixIndex against a model that knows no tree and no
// hash: a map from whole beginnings of texts to KV blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kv/prefix_index.h"

namespace winnow {
namespace {

constexpr int kNumIndexOperations = 400;
constexpr size_t kNumKvBlocks = 24;

// A beginning: its root, then a kind and a word a page, which stands for 32
// equal tokens.
using Beginning = std::vector<int32_t>;

struct Page {
  KvBlockId kv_block;
  uint32_t num_users = 0;
  int64_t last_use = 0;
};

// A sequence that holds KV blocks, and what lies in them.
struct Holder {
  Beginning text;
  std::vector<KvBlockId> kv_blocks;
};

class IndexWorld {
 public:
  IndexWorld(uint64_t seed, bool collides)
      : random_(seed),
        collides_(collides),
        // 16 hashes for up to 24 pages.
        index_(kNumKvBlocks, collides ? 15 : ~uint64_t{0}) {
    for (uint32_t i = 0; i < kNumKvBlocks; ++i) free_.push_back(KvBlockId(i));
  }

  void Operate() {
    const int dice = Below(10);
    if (dice < 4) {
      Begin();
    } else if (dice < 6) {
      EnterAny(/*ends=*/false);
    } else if (dice < 9) {
      EnterAny(/*ends=*/true);
    } else {
      Evict();
    }
  }

  void ExpectAllIsTrue() {
    EXPECT_EQ(BrokenInvariants(index_.Snapshot()), std::vector<std::string>());
    int64_t num_idle = 0, num_repeated = 0;
    for (const auto& [beginning, page] : pages_) {
      num_idle += page.num_users == 0;
      num_repeated += std::max<int64_t>(page.num_users, 1) - 1;
      EXPECT_EQ(Find(beginning).back(), page.kv_block);
    }
    EXPECT_EQ(index_.num_pages(), std::ssize(pages_));
    EXPECT_EQ(index_.num_idle(), num_idle);
    EXPECT_EQ(index_.num_repeated(), num_repeated);
  }

  void EndAll() {
    while (!holders_.empty()) EnterAny(/*ends=*/true);
    while (index_.num_idle() > 0) Evict();
    EXPECT_EQ(free_.size(), kNumKvBlocks);
    EXPECT_TRUE(pages_.empty());
    EXPECT_EQ(index_.Snapshot().roots.size(), 0u);
  }

  int num_hits() const { return num_hits_; }
  int num_collisions() const { return num_collisions_; }
  int num_evictions() const { return num_evictions_; }
  int num_passed() const { return num_passed_; }

 private:
  int Below(int end) {
    return static_cast<int>(random_() % static_cast<uint64_t>(end));
  }

  static size_t NumPages(const Beginning& text) { return text.size() / 2; }
  static Beginning First(const Beginning& text, size_t num_pages) {
    return {text.begin(),
            text.begin() + 1 + 2 * static_cast<int64_t>(num_pages)};
  }
  static std::string RootOf(const Beginning& text) {
    return std::string(static_cast<size_t>(text[0]), 'r');
  }
  static std::vector<PageKind> KindsOf(const Beginning& text) {
    std::vector<PageKind> kinds;
    for (size_t i = 1; i < text.size(); i += 2) {
      kinds.push_back(static_cast<PageKind>(text[i]));
    }
    return kinds;
  }
  static std::vector<int32_t> TokensOf(const Beginning& text) {
    std::vector<int32_t> tokens;
    for (size_t i = 2; i < text.size(); i += 2) {
      tokens.insert(tokens.end(), kPageTokens, text[i]);
    }
    return tokens;
  }

  std::vector<KvBlockId> Find(const Beginning& text) {
    std::vector<KvBlockId> kv_blocks;
    // Page by page, as a call takes kinds by preference and not by place.
    const std::vector<int32_t> tokens = TokensOf(text);
    const std::vector<PageKind> kinds = KindsOf(text);
    const std::array<PageKind, 2> either = {0, 1};
    const PrefixHit hit =
        index_.Find({RootOf(text), tokens}, NumPages(text), either);
    for (size_t i = 0; i < hit.kv_blocks.size(); ++i) {
      if (hit.kinds[i] != kinds[i]) break;
      kv_blocks.push_back(hit.kv_blocks[i]);
    }
    return kv_blocks;
  }

  // Texts branch seldom enough to meet again. A word has one kind, so that
  // either kind leads to the same page.
  Beginning AnyText() {
    Beginning text = {Below(2)};
    for (int i = Below(6); i >= 0; --i) {
      const int32_t word = Below(i % 2 == 0 ? 3 : 1);
      text.push_back(word % 2);
      text.push_back(word);
    }
    return text;
  }

  // What the model says that is found of a text.
  size_t NumKnown(const Beginning& text) const {
    size_t count = 0;
    while (count < NumPages(text) && pages_.contains(First(text, count + 1))) {
      ++count;
    }
    return count;
  }

  // A sequence holds what is there of its text, and free KV blocks for more.
  void Begin() {
    Holder holder = {.text = AnyText(), .kv_blocks = {}};
    holder.kv_blocks = Find(holder.text);
    ASSERT_EQ(holder.kv_blocks.size(), NumKnown(holder.text));
    num_hits_ += !holder.kv_blocks.empty();
    index_.Pin(holder.kv_blocks);
    ++now_;
    for (size_t i = 0; i < holder.kv_blocks.size(); ++i) {
      Page& page = pages_.at(First(holder.text, i + 1));
      ASSERT_EQ(page.kv_block, holder.kv_blocks[i]);
      ++page.num_users;
      page.last_use = now_;
    }
    while (holder.kv_blocks.size() < NumPages(holder.text)) {
      if (free_.empty()) Evict();
      if (free_.empty()) break;
      const size_t at =
          static_cast<size_t>(Below(static_cast<int>(free_.size())));
      holder.kv_blocks.push_back(free_[at]);
      free_.erase(free_.begin() + static_cast<int64_t>(at));
    }
    holder.text = First(holder.text, holder.kv_blocks.size());
    holders_.push_back(std::move(holder));
  }

  void EnterAny(bool ends) {
    if (holders_.empty()) return;
    const auto at = holders_.begin() + Below(static_cast<int>(holders_.size()));
    const Beginning text = at->text;
    const std::vector<int32_t> tokens = TokensOf(text);
    const std::vector<KvBlockId> taken = index_.Enter(
        {RootOf(text), tokens}, KindsOf(text), at->kv_blocks, ends);
    ModelEnter(*at, taken, ends);
    if (!ends) return;
    index_.Unpin(at->kv_blocks);
    ModelEnd(*at);
    holders_.erase(at);
  }

  void ModelEnter(const Holder& holder, const std::vector<KvBlockId>& taken,
                  bool ends) {
    ++now_;
    std::vector<KvBlockId> expected;
    for (size_t i = 0; i < holder.kv_blocks.size(); ++i) {
      const KvBlockId kv_block = holder.kv_blocks[i];
      const Beginning beginning = First(holder.text, i + 1);
      const auto page = pages_.find(beginning);
      if (page == pages_.end()) {
        // The model does not know which hashes are equal.
        const bool enters = expected.size() < taken.size();
        num_collisions_ += !enters;
        ASSERT_TRUE(enters || collides_);
        if (!enters) break;
        expected.push_back(kv_block);
        pages_[beginning] = {kv_block, 1, now_};
        continue;
      }
      const bool foreign = page->second.kv_block != kv_block;
      num_passed_ += foreign && ends;
      if (foreign && !ends) break;
      page->second.last_use = now_;
    }
    EXPECT_EQ(taken, expected);
  }

  void ModelEnd(const Holder& holder) {
    ++now_;
    for (size_t i = 0; i < holder.kv_blocks.size(); ++i) {
      const auto page = pages_.find(First(holder.text, i + 1));
      if (page == pages_.end() ||
          page->second.kv_block != holder.kv_blocks[i]) {
        free_.push_back(holder.kv_blocks[i]);
        continue;
      }
      --page->second.num_users;
      page->second.last_use = now_;
    }
  }

  // The idle page that no other page begins with, used longest ago.
  void Evict() {
    auto victim = pages_.end();
    for (auto page = pages_.begin(); page != pages_.end(); ++page) {
      // Its continuations come right behind it in the map.
      const auto next = std::next(page);
      const bool is_leaf =
          next == pages_.end() || next->first.size() <= page->first.size() ||
          First(next->first, NumPages(page->first)) != page->first;
      if (!is_leaf || page->second.num_users > 0) continue;
      if (victim == pages_.end() ||
          page->second.last_use < victim->second.last_use) {
        victim = page;
      }
    }
    const std::optional<KvBlockId> kv_block = index_.Evict();
    ASSERT_EQ(kv_block.has_value(), victim != pages_.end());
    if (!kv_block) return;
    ++num_evictions_;
    EXPECT_EQ(*kv_block, victim->second.kv_block);
    free_.push_back(*kv_block);
    pages_.erase(victim);
  }

  std::mt19937_64 random_;
  const bool collides_;
  PrefixIndex index_;
  std::map<Beginning, Page> pages_;
  std::vector<Holder> holders_;
  std::vector<KvBlockId> free_;
  int64_t now_ = 0;
  int num_hits_ = 0;
  int num_collisions_ = 0;
  int num_evictions_ = 0;
  int num_passed_ = 0;
};

// A test's name ends in its seed; every third world has few hashes.
class PrefixIndexPropertyTest : public testing::TestWithParam<uint64_t> {};

TEST_P(PrefixIndexPropertyTest, IsAMapFromBeginnings) {
  const bool collides = GetParam() % 3 == 2;
  IndexWorld world(GetParam(), collides);
  for (int i = 0; i < kNumIndexOperations; ++i) {
    world.Operate();
    world.ExpectAllIsTrue();
    ASSERT_FALSE(HasFailure()) << "seed " << GetParam() << " operation " << i;
  }
  EXPECT_GT(world.num_hits(), 0) << "no text was ever met again";
  EXPECT_GT(world.num_evictions(), 0) << "nothing was ever evicted";
  EXPECT_GT(world.num_passed(), 0) << "no two had the same page";
  EXPECT_EQ(world.num_collisions() > 0, collides);
  world.EndAll();
}

INSTANTIATE_TEST_SUITE_P(Seeds, PrefixIndexPropertyTest,
                         testing::Range<uint64_t>(0, 24));

}  // namespace
}  // namespace winnow
