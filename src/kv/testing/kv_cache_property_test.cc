// Random operations on a KvCache against a model that knows nothing of pages:
// each sequence is a string of tokens. The bytes are simulated: a KV block is
// 32 numbers, written by steps and by the copies that a reservation asks for;
// so is one of the host, written by copies between tiers. Whatever happens,
// every sequence reads back its own string, also where it began with pages that
// another left behind, or that it left itself, wherever they were meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "kv/kv_cache.h"

namespace winnow {
namespace {

constexpr int kNumOperations = 1000;
constexpr size_t kMaxSequences = 7;
constexpr size_t kMaxTexts = 8;

struct Told {
  std::vector<int64_t> tokens;
  int num_sealed = 0;
};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        // Most pages are those of KV, some a selector's longer segments.
        page_tokens_(seed % 4 == 3 ? 70 : kPageTokens),
        cache_(Below(seed % 4 == 3 ? 20 : 50) + 2, page_tokens_,
               seed % 4 == 3 ? 0 : Below(30)),
        kv_blocks_(NumKvBlocks(), KvBlock(static_cast<size_t>(page_tokens_))),
        host_kv_blocks_(static_cast<size_t>(cache_.num_host_pages()),
                        KvBlock(kPageTokens)) {}

  ~World() {
    for (const auto& [sequence, told] : told_) cache_.Close(sequence);
  }

  void Operate() {
    const int64_t dice = Below(120);
    if (Below(4) == 0) WriteBehind();
    if (dice < 4 || told_.empty()) {
      Open();
    } else if (dice < 8) {
      // What is decided in a row is carried out in a row.
      for (int64_t i = Below(3); i >= 0; --i) {
        OpenAgain();
        for (int64_t j = Below(3); j > 0; --j) cache_.ReclaimIdle();
      }
    } else if (dice < 10) {
      Park();
    } else if (dice < 12) {
      OpenParked();
    } else if (dice < 18) {
      Fork();
    } else if (dice < 70) {
      Step(/*commits=*/dice >= 28);
    } else if (dice < 88) {
      Seal();
    } else if (dice < 92) {
      Truncate();
    } else if (dice < 95) {
      Enter();
    } else if (dice < 100) {
      Close();
    } else if (dice < 110) {
      MoveToHost();
    } else {
      MoveToDevice();
    }
    CarryOutTierCopies();
    SpoilFreeKvBlocks();
  }

  void ExpectAllIsTrue() {
    EXPECT_EQ(BrokenInvariants(cache_.Snapshot()), std::vector<std::string>());
    EXPECT_EQ(BrokenInvariants(cache_.prefixes().Snapshot()),
              std::vector<std::string>());
    ASSERT_EQ(cache_.num_sequences(), static_cast<int>(told_.size()));
    for (const auto& [sequence, told] : told_) {
      ASSERT_EQ(cache_.num_tokens(sequence),
                static_cast<int>(told.tokens.size()));
      ASSERT_EQ(cache_.num_sealed(sequence), told.num_sealed);
      std::vector<int64_t> found;
      const std::span<const KvBlockId> pages = cache_.pages(sequence);
      for (size_t page = 0; page < pages.size(); ++page) {
        const bool is_whole = pages[page] != kNoKvBlock;
        const KvBlockId far =
            is_whole ? kNoKvBlock : cache_.far_pages(sequence)[page];
        const KvBlock& kv_block = is_whole ? kv_blocks_[pages[page].value()]
                                           : host_kv_blocks_[far.value()];
        found.insert(found.end(), kv_block.begin(), kv_block.end());
      }
      ASSERT_GE(found.size(), told.tokens.size());
      found.resize(told.tokens.size());
      ASSERT_EQ(found, told.tokens) << "sequence " << sequence.value();
    }
  }

  bool AllIsFree() const {
    return cache_.num_free_pages() == cache_.num_pages();
  }
  void CloseAll() {
    while (!told_.empty()) Close();
    while (!parked_.empty()) ForgetParked();
    CarryOutTierCopies();
  }
  int num_copies() const { return num_copies_; }
  int num_refusals() const { return num_refusals_; }
  int num_hits() const { return num_hits_; }
  int num_evictions() const { return num_evictions_; }
  int num_demotions() const { return num_demotions_; }
  int num_promotions() const { return num_promotions_; }
  int num_returns() const { return num_returns_; }
  int num_moves() const { return num_moves_; }
  int64_t num_written_behind() const { return num_written_behind_; }
  int num_moves_back() const { return num_moves_back_; }
  int num_shared_back() const { return num_shared_back_; }
  bool has_index() const { return page_tokens_ == kPageTokens; }

 private:
  using KvBlock = std::vector<int64_t>;

  size_t NumKvBlocks() const { return static_cast<size_t>(cache_.num_pages()); }
  int64_t Below(int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random_);
  }
  // Where the bytes of a token are. Null where no page is there.
  int64_t* Slot(SequenceId sequence, size_t token) {
    const std::span<const KvBlockId> pages = cache_.pages(sequence);
    const auto page_tokens = static_cast<size_t>(page_tokens_);
    if (token / page_tokens >= pages.size()) return nullptr;
    return &kv_blocks_[pages[token / page_tokens].value()][token % page_tokens];
  }
  std::pair<const SequenceId, Told>& AnySequence() {
    return *std::next(told_.begin(), Below(static_cast<int64_t>(told_.size())));
  }

  void Open() {
    if (told_.size() == kMaxSequences) return;
    cache_.Open(SequenceId(++last_id_));
    told_[SequenceId(last_id_)] = {};
  }

  // With what is there of a text that was entered once.
  void OpenAgain() {
    if (told_.size() == kMaxSequences || texts_.empty()) return;
    const std::vector<int32_t>& text =
        texts_[static_cast<size_t>(Below(std::ssize(texts_)))];
    OpenWithHit({"", text}, std::array<PageKind, 1>{0});
  }

  void OpenWithHit(const PrefixPath& path, std::span<const PageKind> kinds) {
    PrefixHit hit =
        cache_.prefixes().Find(path, path.tokens.size() / kPageTokens, kinds);
    const int64_t num_idle =
        std::ssize(hit.kv_blocks) - cache_.prefixes().NumUsed(hit.kv_blocks);
    hit.Shorten(hit.kv_blocks.size() +
                static_cast<size_t>(cache_.num_free_pages() - num_idle));
    cache_.Open(SequenceId(++last_id_), hit);
    const auto num_tokens = std::ssize(hit.kinds) * kPageTokens;
    num_hits_ += num_tokens > 0;
    told_[SequenceId(last_id_)] = {
        {path.tokens.begin(), path.tokens.begin() + num_tokens},
        static_cast<int>(num_tokens)};
  }

  // A sequence ends, and those of its whole pages that others may not have are
  // for its return alone.
  void Park() {
    if (!has_index()) return;
    const auto& [sequence, told] = AnySequence();
    const SequenceId id = sequence;
    if (cache_.NumFar(id) > 0) return;
    parked_.push_back({static_cast<PageKind>(id.value()),
                       {told.tokens.begin(), told.tokens.end()}});
    std::vector<PageKind> kinds;
    for (const KvBlockId kv_block : cache_.pages(id).first(
             static_cast<size_t>(told.num_sealed / kPageTokens))) {
      kinds.push_back(cache_.prefixes().Holds(kv_block) ? 0
                                                        : parked_.back().kind);
    }
    cache_.Close(id, {"", parked_.back().text}, kinds);
    told_.erase(id);
  }
  void OpenParked() {
    if (told_.size() == kMaxSequences || parked_.empty()) return;
    OpenWithHit({"", parked_.back().text},
                std::array<PageKind, 2>{parked_.back().kind, 0});
    num_returns_ += cache_.num_tokens(SequenceId(last_id_)) > 0;
    ForgetParked();
  }
  void ForgetParked() {
    cache_.Forget({"", parked_.back().text},
                  std::array<PageKind, 2>{parked_.back().kind, 0});
    parked_.pop_back();
  }

  // What may be entered of a sequence; its text is kept.
  std::vector<PageKind> KindsOf(const Told& told) {
    texts_.emplace_back(told.tokens.begin(), told.tokens.end());
    if (texts_.size() > kMaxTexts) texts_.erase(texts_.begin());
    return std::vector<PageKind>(
        static_cast<size_t>(told.num_sealed / kPageTokens));
  }

  void Enter() {
    const auto& [sequence, told] = AnySequence();
    if (!has_index()) return;
    const std::vector<PageKind> kinds = KindsOf(told);
    cache_.Enter(sequence, {"", texts_.back()}, kinds);
  }

  void Fork() {
    auto& [parent, told] = AnySequence();
    const bool is_sealed =
        told.num_sealed == static_cast<int>(told.tokens.size());
    if (!is_sealed || told_.size() == kMaxSequences) return;
    if (cache_.NumFar(parent) > 0) return;
    cache_.Fork(parent, SequenceId(++last_id_));
    told_[SequenceId(last_id_)] = told;
  }

  void Seal() {
    auto& [sequence, told] = AnySequence();
    const int num_owned = static_cast<int>(told.tokens.size());
    if (Below(3) > 0) {
      told.num_sealed = num_owned;
    } else {
      told.num_sealed +=
          static_cast<int>(Below(num_owned - told.num_sealed + 1));
    }
    cache_.Seal(sequence, told.num_sealed);
  }

  void Truncate() {
    auto& [sequence, told] = AnySequence();
    const int64_t num_tokens = Below(std::ssize(told.tokens) + 1);
    const int64_t num_far = std::ssize(cache_.far_pages(sequence));
    if (num_tokens > 0 && num_tokens < num_far * page_tokens_) return;
    told.tokens.resize(static_cast<size_t>(num_tokens));
    told.num_sealed = std::min(told.num_sealed, static_cast<int>(num_tokens));
    cache_.Truncate(sequence, static_cast<int>(num_tokens));
  }

  void Close() {
    const auto& [sequence, told] = AnySequence();
    const SequenceId id = sequence;
    if (has_index() && Below(2) == 0) {
      const std::vector<PageKind> kinds = KindsOf(told);
      cache_.Close(id, {"", texts_.back()}, kinds);
    } else {
      cache_.Close(id);
    }
    told_.erase(id);
  }

  // The next ones to leave then lie on the host, unless too many were to.
  void WriteBehind() {
    const WriteBehindLimits limits = {.watermark = Below(30),
                                      .max_pages = Below(6)};
    const KvSnapshot before = cache_.Snapshot();
    const int64_t num_leaving = limits.watermark - before.device.num_free;
    const int64_t count = cache_.WriteBehind(limits);
    num_written_behind_ += count;
    EXPECT_LE(count, limits.max_pages);
    EXPECT_EQ(cache_.num_free_pages(),
              before.device.num_free + cache_.prefixes().num_idle());
    if (count == limits.max_pages || cache_.num_free_host_pages() == 0) return;
    for (const PagePlaces& page : cache_.prefixes().NextToEvict(num_leaving)) {
      EXPECT_TRUE(page.host.has_value()) << page.device->value();
    }
    EXPECT_EQ(cache_.WriteBehind(limits), 0);
  }

  // Some of its pages leave the device, as far as the host has room.
  void MoveToHost() {
    const auto& [sequence, told] = AnySequence();
    const int64_t end = Below(told.num_sealed / page_tokens_ + 1);
    const PageRange range = cache_.Movable(sequence, end);
    if (range.num_whole == 0 ||
        range.num_whole > cache_.num_available_host_pages()) {
      return;
    }
    ++num_moves_;
    cache_.MoveToHost(sequence, range);
  }
  // Some of them come back, also of another that shares them.
  void MoveToDevice() {
    for (const auto& [sequence, told] : told_) {
      const int64_t most =
          std::min(cache_.NumFar(sequence), cache_.num_free_pages());
      if (most == 0 || Below(3) == 0) continue;
      const int64_t num_pages = 1 + Below(most);
      const int64_t num_far = cache_.NumFar(sequence);
      const int64_t num_to_copy = cache_.NumToCopy(sequence);
      const int64_t num_copied = cache_.MoveToDevice(sequence, num_pages);
      if (num_pages == num_far) {
        EXPECT_EQ(num_copied, num_to_copy);
      }
      EXPECT_EQ(cache_.NumFar(sequence), num_far - num_pages);
      EXPECT_LE(num_copied, num_pages);
      ++num_moves_back_;
      num_shared_back_ += num_copied < num_pages;
    }
  }

  std::vector<Growth> AnyGrowths() {
    std::vector<Growth> growths;
    for (const auto& [sequence, told] : told_) {
      if (Below(3) == 0) continue;
      const int64_t most = Below(4) == 0 ? 100 : 2;
      growths.push_back({sequence, static_cast<int>(Below(most + 1))});
    }
    std::shuffle(growths.begin(), growths.end(), random_);
    return growths;
  }

  // The pages that `growths` takes, counted one writer after the other.
  int64_t CountNeed(const std::vector<Growth>& growths) {
    std::map<KvBlockId, int> num_owners;
    for (const auto& [sequence, told] : told_) {
      for (KvBlockId kv_block : cache_.pages(sequence)) ++num_owners[kv_block];
    }
    for (const IndexedSnapshot& each : cache_.Snapshot().indexed) {
      ++num_owners[each.kv_block];
    }
    int64_t num_needed = 0;
    for (const auto& [sequence, num_tokens] : growths) {
      const size_t begin = told_[sequence].tokens.size();
      const size_t end = begin + static_cast<size_t>(num_tokens);
      const auto page_tokens = static_cast<size_t>(page_tokens_);
      for (size_t i = begin; i < end; ++i) num_needed += i % page_tokens == 0;
      if (num_tokens == 0 || begin % page_tokens == 0) continue;
      int& owners = num_owners[cache_.pages(sequence).back()];
      if (owners > 1) {
        ++num_needed;
        --owners;
      }
    }
    return num_needed;
  }

  void Step(bool commits) {
    const std::vector<Growth> growths = AnyGrowths();
    const KvSnapshot before = cache_.Snapshot();
    const PageNeed need = cache_.Need(growths);
    EXPECT_EQ(need.num_needed, CountNeed(growths));
    const int64_t num_free = cache_.num_free_pages();
    EXPECT_EQ(need.num_free, num_free);
    num_evictions_ +=
        before.device.num_free < need.num_needed && need.num_needed <= num_free;
    {
      std::optional<Reservation> reservation = cache_.Reserve(growths);
      ASSERT_EQ(reservation.has_value(), need.num_needed <= num_free);
      if (reservation) {
        CarryOutTierCopies();
        // A page of the index from which its last user copies is idle then.
        EXPECT_EQ(num_free - cache_.num_free_pages(),
                  need.num_needed - NumLeft(before));
        EXPECT_EQ(BrokenInvariants(cache_.Snapshot()),
                  std::vector<std::string>());
        if (commits) {
          CarryOut(reservation->copies());
          reservation->Commit();
          return Write(growths);
        }
      } else {
        ++num_refusals_;
      }
    }
    if (need.num_needed > before.device.num_free)
      return;  // Idle pages may be gone.
    EXPECT_TRUE(cache_.Snapshot() == before)
        << "a refused or dropped reservation left a trace";
  }

  // Pages of the index that had users before, and have none now.
  int64_t NumLeft(const KvSnapshot& before) const {
    int64_t count = 0;
    for (const IndexedSnapshot& now : cache_.Snapshot().indexed) {
      for (const IndexedSnapshot& then : before.indexed) {
        count += then.kv_block == now.kv_block && then.num_users > 0 &&
                 now.num_users == 0;
      }
    }
    return count;
  }

  void CarryOut(std::span<const KvBlockCopy> copies) {
    std::set<KvBlockId> targets;
    for (const KvBlockCopy& copy : copies) targets.insert(copy.to);
    EXPECT_EQ(targets.size(), copies.size());
    for (const KvBlockCopy& copy : copies) {
      EXPECT_FALSE(targets.contains(copy.from));
      std::copy_n(kv_blocks_[copy.from.value()].begin(), copy.num_tokens,
                  kv_blocks_[copy.to.value()].begin());
      ++num_copies_;
    }
  }

  void CarryOutTierCopies() {
    for (const TierCopy& copy : cache_.TakeTierCopies()) {
      KvBlock& device = kv_blocks_[copy.device.value()];
      KvBlock& host = host_kv_blocks_[copy.host.value()];
      if (copy.direction == TierCopy::Direction::kToHost) {
        host = device;
        ++num_demotions_;
      } else {
        device = host;
        ++num_promotions_;
      }
    }
  }

  void Write(const std::vector<Growth>& growths) {
    for (const auto& [sequence, num_tokens] : growths) {
      std::vector<int64_t>& tokens = told_[sequence].tokens;
      for (int i = 0; i < num_tokens; ++i) {
        tokens.push_back(Below(1 << 30));
        int64_t* slot = Slot(sequence, tokens.size() - 1);
        ASSERT_NE(slot, nullptr);
        *slot = tokens.back();
      }
    }
  }

  // What nobody owns may hold anything.
  void SpoilFreeKvBlocks() {
    const KvSnapshot snapshot = cache_.Snapshot();
    for (size_t i = 0; i < kv_blocks_.size(); ++i) {
      if (snapshot.device.is_free[i]) {
        std::ranges::fill(kv_blocks_[i], -1 - Below(1 << 30));
      }
    }
    for (size_t i = 0; i < host_kv_blocks_.size(); ++i) {
      if (snapshot.host.is_free[i]) {
        std::ranges::fill(host_kv_blocks_[i], -1 - Below(1 << 30));
      }
    }
  }

  std::mt19937_64 random_;
  const int page_tokens_;
  KvCache cache_;
  std::vector<KvBlock> kv_blocks_;
  std::vector<KvBlock> host_kv_blocks_;
  std::map<SequenceId, Told> told_;
  uint64_t last_id_ = 0;
  int num_copies_ = 0;
  int num_refusals_ = 0;
  std::vector<std::vector<int32_t>> texts_;  // that were entered, the last ones
  // Those that wait for their return.
  struct Parked {
    PageKind kind = 0;
    std::vector<int32_t> text;
  };
  std::vector<Parked> parked_;
  int num_hits_ = 0;
  int num_evictions_ = 0;
  int num_demotions_ = 0;
  int num_promotions_ = 0;
  int num_moves_ = 0;
  int64_t num_written_behind_ = 0;
  int num_moves_back_ = 0;
  int num_shared_back_ = 0;  // pages that were still there
  int num_returns_ = 0;
};

// A test's name ends in its seed.
class KvCachePropertyTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(KvCachePropertyTest, EverySequenceReadsBackItsOwnTokens) {
  World world(GetParam());
  for (int i = 0; i < kNumOperations; ++i) {
    world.Operate();
    world.ExpectAllIsTrue();
    ASSERT_FALSE(HasFailure()) << "seed " << GetParam() << " operation " << i;
  }
  EXPECT_GT(world.num_copies(), 0) << "the run never copied on write";
  EXPECT_GT(world.num_refusals(), 0) << "the run never ran out of pages";
  if (!world.has_index()) {
    EXPECT_EQ(world.num_hits(), 0);
    EXPECT_EQ(world.num_evictions(), 0);
  }
  world.CloseAll();
  EXPECT_TRUE(world.AllIsFree());
}

// A seed's run may share nothing, but not all of them.
TEST(KvCacheRunsTest, RunsFindPrefixesEvictThemAndMoveThem) {
  int num_hits = 0, num_evictions = 0, num_demotions = 0, num_promotions = 0,
      num_returns = 0, num_moves = 0, num_moves_back = 0, num_shared_back = 0;
  int64_t num_written_behind = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    World world(seed);
    for (int i = 0; i < kNumOperations; ++i) world.Operate();
    num_hits += world.num_hits();
    num_evictions += world.num_evictions();
    num_demotions += world.num_demotions();
    num_promotions += world.num_promotions();
    num_returns += world.num_returns();
    num_moves += world.num_moves();
    num_moves_back += world.num_moves_back();
    num_shared_back += world.num_shared_back();
    num_written_behind += world.num_written_behind();
    world.CloseAll();
  }
  EXPECT_GT(num_hits, 16);
  EXPECT_GT(num_evictions, 16);
  EXPECT_GT(num_demotions, 100);
  EXPECT_GT(num_promotions, 100);
  EXPECT_GT(num_returns, 16);
  EXPECT_GT(num_moves, 100);
  EXPECT_GT(num_moves_back, 100);
  EXPECT_GT(num_shared_back, 16);
  EXPECT_GT(num_written_behind, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KvCachePropertyTest,
                         ::testing::Range<uint64_t>(0, 16));

}  // namespace
}  // namespace winnow
