#include "kv/slot_ledger.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace winnow {
namespace {

using LayerBlocks = std::vector<uint32_t>;

constexpr SequenceId kFirst(1), kSecond(2);

LayerBlocks FramesOf(const SlotLedger& ledger, SequenceId sequence, int layer) {
  const std::span<const uint32_t> frames = ledger.frames(sequence, layer);
  return {frames.begin(), frames.end()};
}

TEST(SlotLedgerTest, LayerBlocksServeAnyLayerLowestFirst) {
  SlotLedger ledger({.num_layers = 2, .num_chunks = 9, .max_frames = 100});
  ledger.Split(KvBlockId(7));
  ledger.Split(KvBlockId(3));
  ledger.Open(kFirst);
  ledger.Open(kSecond);
  EXPECT_TRUE(ledger.Resize(kFirst, std::array{3, 0}));
  EXPECT_EQ(FramesOf(ledger, kFirst, 0), (LayerBlocks{6, 7, 14}));
  EXPECT_FALSE(ledger.Resize(kSecond, std::array{1, 1}));
  EXPECT_EQ(ledger.KvBlocksToSplit(kSecond, std::array{1, 1}), 1);
  EXPECT_EQ(ledger.KvBlocksToSplit(kSecond, std::array{0, 1}), 0);
  // What one layer gives back another may have in the same call.
  EXPECT_TRUE(ledger.Resize(kFirst, std::array{1, 3}));
  EXPECT_EQ(FramesOf(ledger, kFirst, 0), (LayerBlocks{6}));
  EXPECT_EQ(FramesOf(ledger, kFirst, 1), (LayerBlocks{7, 14, 15}));
  ledger.Close(kFirst);
  ledger.Close(kSecond);
}

TEST(SlotLedgerTest, LayerBlocksThatAreHeldAreNoFrames) {
  SlotLedger ledger(
      {.num_layers = 2, .num_segments = 0, .num_chunks = 9, .max_frames = 9});
  for (const uint32_t kv_block : {5u, 7u}) ledger.Split(KvBlockId(kv_block));
  ledger.Open(kFirst);
  EXPECT_TRUE(ledger.Resize(kFirst, std::array{1, 0}));
  EXPECT_TRUE(ledger.Hold(kFirst, 2));
  EXPECT_EQ(std::vector(ledger.held(kFirst).begin(), ledger.held(kFirst).end()),
            (std::vector<uint32_t>{11, 14}));
  EXPECT_EQ(ledger.chunks(kFirst, 1).size(), 0u);
  EXPECT_FALSE(ledger.Hold(kFirst, 4));
  EXPECT_FALSE(ledger.Join());
  EXPECT_TRUE(ledger.Hold(kFirst, 1));
  EXPECT_EQ(ledger.Join(), KvBlockId(7));
  EXPECT_EQ(BrokenInvariants(ledger.Snapshot()), std::vector<std::string>());
  ledger.Close(kFirst);
  EXPECT_EQ(ledger.Join(), KvBlockId(5));
}

TEST(SlotLedgerTest, KvBlocksJoinWhenNoLayerBlockIsUsed) {
  SlotLedger ledger({.num_layers = 2, .num_chunks = 9, .max_frames = 100});
  for (const uint32_t kv_block : {4, 5, 6}) ledger.Split(KvBlockId(kv_block));
  ledger.Open(kFirst);
  ASSERT_TRUE(ledger.Resize(kFirst, std::array{1, 2}));
  EXPECT_EQ(ledger.Join(), KvBlockId(6));
  EXPECT_EQ(ledger.Join(), std::nullopt);
  ASSERT_TRUE(ledger.Resize(kFirst, std::array{1, 1}));
  EXPECT_EQ(ledger.Join(), KvBlockId(5));
  ledger.Close(kFirst);
  EXPECT_EQ(ledger.Join(), KvBlockId(4));
  EXPECT_EQ(ledger.num_free_layer_blocks(), 0);
}

TEST(SlotLedgerTest, SegmentsComeWithThePagesThatNeedThem) {
  SlotLedger ledger({.num_layers = 1, .num_segments = 3, .max_frames = 1});
  ledger.Open(kFirst);
  ledger.Open(kSecond);
  EXPECT_TRUE(ledger.segments(kFirst).empty());
  constexpr int64_t kPages = kSlotSegmentPages;
  EXPECT_TRUE(ledger.Cover(kFirst, 2 * kPages, 2 * kPages + 1));
  EXPECT_EQ(ledger.segments(kFirst).size(), 3u);
  EXPECT_EQ(ledger.segments(kFirst)[1], kNoSlotSegment);
  EXPECT_FALSE(ledger.Cover(kSecond, kPages - 1, 3 * kPages + 1));
  EXPECT_TRUE(ledger.segments(kSecond).empty());
  EXPECT_TRUE(ledger.Cover(kSecond, kPages - 1, kPages + 1));
  EXPECT_TRUE(ledger.Cover(kSecond, 0, 2 * kPages));  // all there
  EXPECT_FALSE(ledger.Cover(kFirst, 0, 1));
  ledger.Uncover(kSecond, kPages - 1);  // the first still has a page
  EXPECT_FALSE(ledger.Cover(kFirst, 0, 1));
  ledger.Uncover(kSecond, kPages);
  EXPECT_EQ(ledger.segments(kSecond).front(), kNoSlotSegment);
  EXPECT_NE(ledger.segments(kSecond).back(), kNoSlotSegment);
  EXPECT_TRUE(ledger.Cover(kFirst, 0, 1));
  ledger.Close(kSecond);
  ledger.Close(kFirst);
}

TEST(SlotLedgerTest, TellsWhatIsAddedOnce) {
  SlotLedger ledger({.num_layers = 2, .num_chunks = 9, .max_frames = 100});
  for (uint32_t kv_block = 0; kv_block < 9; ++kv_block) {
    ledger.Split(KvBlockId(kv_block));
  }
  ledger.Open(kFirst);
  ASSERT_TRUE(ledger.Resize(kFirst, std::array{4, 0}));
  ASSERT_TRUE(ledger.Resize(kFirst, std::array{6, 1}));
  ASSERT_TRUE(ledger.Resize(kFirst, std::array{5, 1}));
  EXPECT_EQ(ledger.TakeAdded(),
            (std::vector<AddedFrames>{
                {kFirst, 0, 0, 4}, {kFirst, 0, 4, 5}, {kFirst, 1, 0, 1}}));
  EXPECT_TRUE(ledger.TakeAdded().empty());
  ASSERT_TRUE(ledger.Resize(kFirst, std::array{8, 1}));
  ASSERT_TRUE(ledger.Resize(kFirst, std::array{2, 1}));
  EXPECT_TRUE(ledger.TakeAdded().empty());
  ledger.Close(kFirst);
}

// Random calls: what is refused changes nothing, and all holds after each.
class RandomCalls {
 public:
  explicit RandomCalls(uint32_t seed)
      : random_(seed),
        num_layers_(1 + static_cast<int>(Below(4))),
        ledger_({.num_layers = num_layers_,
                 .num_segments = Below(12),
                 .num_chunks = Below(20),
                 .max_frames = 200}) {}
  ~RandomCalls() {
    for (const SequenceId sequence : open_) ledger_.Close(sequence);
  }

  void Call() {
    const int64_t dice = Below(11);
    if (dice < 2) {
      const auto kv_block = static_cast<uint32_t>(Below(100));
      if (split_.insert(kv_block).second) ledger_.Split(KvBlockId(kv_block));
    } else if (dice < 3) {
      if (const auto joined = ledger_.Join()) split_.erase(joined->value());
    } else if (dice < 4 && open_.size() < 6) {
      open_.push_back(SequenceId(++last_id_));
      ledger_.Open(open_.back());
    } else if (!open_.empty()) {
      CallOn(static_cast<size_t>(Below(std::ssize(open_))), dice);
    }
    EXPECT_EQ(BrokenInvariants(ledger_.Snapshot()), std::vector<std::string>());
  }

  void ExpectAllComesBack() {
    for (const SequenceId sequence : open_) ledger_.Close(sequence);
    open_.clear();
    while (ledger_.Join()) {
    }
    EXPECT_EQ(ledger_.num_free_layer_blocks(), 0);
    const SlotSnapshot end = ledger_.Snapshot();
    EXPECT_EQ(end.num_free_segments, end.num_segments);
    EXPECT_EQ(end.num_free_chunks, end.num_chunks);
  }
  int num_refused() const { return num_refused_; }

 private:
  int64_t Below(int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random_);
  }
  void CallOn(size_t which, int64_t dice) {
    const SlotSnapshot before = ledger_.Snapshot();
    const SequenceId sequence = open_[which];
    bool done = true;
    if (dice < 5) {
      ledger_.Close(sequence);
      open_.erase(open_.begin() + static_cast<int64_t>(which));
    } else if (dice < 6) {
      const int64_t first = Below(9 * kSlotSegmentPages);
      done =
          ledger_.Cover(sequence, first, first + Below(3 * kSlotSegmentPages));
    } else if (dice < 7) {
      ledger_.Uncover(sequence, Below(9 * kSlotSegmentPages));
    } else if (dice < 8) {
      const int64_t num_layer_blocks = Below(Below(2) == 0 ? 200 : 9);
      const int64_t num_more =
          num_layer_blocks - std::ssize(ledger_.held(sequence));
      const bool has_room = num_more <= ledger_.num_free_layer_blocks();
      done = ledger_.Hold(sequence, num_layer_blocks);
      EXPECT_EQ(done, has_room);
      if (done) {
        EXPECT_EQ(std::ssize(ledger_.held(sequence)), num_layer_blocks);
      }
    } else {
      std::vector<int> frames;
      for (int layer = 0; layer < num_layers_; ++layer) {
        frames.push_back(static_cast<int>(Below(Below(2) == 0 ? 200 : 9)));
      }
      const int64_t missing = ledger_.KvBlocksToSplit(sequence, frames);
      done = ledger_.Resize(sequence, frames);
      EXPECT_TRUE(!done || missing == 0);
    }
    if (done) return;
    ++num_refused_;
    EXPECT_EQ(ledger_.Snapshot(), before);
  }

  std::mt19937 random_;
  const int num_layers_;
  SlotLedger ledger_;
  std::vector<SequenceId> open_;
  std::set<uint32_t> split_;
  uint64_t last_id_ = 0;
  int num_refused_ = 0;
};

TEST(SlotLedgerPropertyTest, NothingIsLostOrOwnedTwice) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomCalls calls(seed);
    for (int i = 0; i < 400 && !HasFailure(); ++i) calls.Call();
    EXPECT_GT(calls.num_refused(), 0);
    calls.ExpectAllComesBack();
  }
}

using SlotLedgerDeathTest = ::testing::Test;

TEST(SlotLedgerDeathTest, NamesWhatIsWrong) {
  SlotLedger ledger({.num_layers = 1, .max_frames = 8});
  ledger.Split(KvBlockId(3));
  EXPECT_DEATH(ledger.Split(KvBlockId(3)), "KV block=3 is split");
  EXPECT_DEATH(ledger.Close(kFirst), "sequence=1 is not open");
  ledger.Open(kFirst);
  EXPECT_DEATH((void)ledger.Resize(kFirst, std::array{9}),
               "num_frames=9 max_frames=8");
  ledger.Close(kFirst);
}

}  // namespace
}  // namespace winnow
