// A store by itself, and each fault by itself; random ones are in
// disk_fault_test.cc.
#include "cache/disk/disk_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "base/faulty_folder.h"
#include "cache/disk/disk_test_pieces.h"

namespace winnow {
namespace {

constexpr int64_t kSmallPieceBytes = 5000;
constexpr int64_t kSlotBytes = 8192 + 4096;

class DiskStoreTest : public testing::Test {
 protected:
  Result<std::unique_ptr<DiskStore>> Open(std::string key = "a tiny model") {
    store_.reset();
    return DiskStore::Open(disk_.Open(),
                           {.header = {.made_with = {{"model", std::move(key)}},
                                       .piece_bytes = kSmallPieceBytes},
                            .max_bytes = num_slots_ * kSlotBytes,
                            .has_own_thread = has_own_thread_});
  }
  void Reopen() {
    Result<std::unique_ptr<DiskStore>> opened = Open();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    store_ = *std::move(opened);
  }
  // Ends with the errors of the writes that failed.
  std::vector<ErrorCode> Write(const TestText& text) {
    std::vector<std::vector<std::byte>> pieces;
    for (size_t page = 0; page < text.num_pages(); ++page) {
      pieces.push_back(PieceOf(text, page, kSmallPieceBytes));
    }
    const std::vector<std::span<const std::byte>> sources(pieces.begin(),
                                                          pieces.end());
    store_->Write(text.path(), text.kinds, 0, sources);
    return Finish();
  }
  size_t NumFound(const TestText& text) const {
    return store_->Find(text.path(), text.num_pages(), kKinds).size();
  }
  // Reads all pages, which are there; what comes without an error is right.
  std::vector<ErrorCode> Read(const TestText& text) {
    return Read(text, text.num_pages());
  }
  std::vector<ErrorCode> Read(const TestText& text, size_t num_there) {
    const auto found = store_->Find(text.path(), text.num_pages(), kKinds);
    EXPECT_EQ(found.size(), num_there);
    std::vector<TestTarget> read;
    std::vector<std::span<std::byte>> targets;
    for (size_t page = 0; page < found.size(); ++page) {
      read.emplace_back(kSmallPieceBytes, skew_);
      targets.push_back(read.back().piece());
    }
    store_->Read(found, targets);
    std::vector<ErrorCode> errors = Finish();
    size_t num_wrong = 0;
    for (size_t page = 0; page < read.size(); ++page) {
      EXPECT_TRUE(read[page].stays_within()) << "page " << page;
      num_wrong += !std::ranges::equal(read[page].piece(),
                                       PieceOf(text, page, kSmallPieceBytes));
    }
    EXPECT_LE(num_wrong, errors.size());
    return errors;
  }
  std::vector<ErrorCode> Finish() {
    std::vector<ErrorCode> errors;
    while (store_->num_under_way() > 0) {
      for (const PieceDone& done : store_->Wait()) {
        if (!done.status.ok()) errors.push_back(done.status.error().code);
      }
    }
    const auto broken = BrokenInvariants(store_->index().Snapshot());
    EXPECT_TRUE(broken.empty()) << broken.front();
    return errors;
  }

  using Errors = std::vector<ErrorCode>;
  FaultyDisk disk_{1};
  int64_t num_slots_ = 4;
  bool has_own_thread_ = false;
  int64_t skew_ = 0;  // of targets
  std::unique_ptr<DiskStore> store_;
};

TEST_F(DiskStoreTest, BringsBackWhatItWasGiven) {
  Reopen();
  EXPECT_EQ(Write(Text({1, 2})), Errors());
  EXPECT_EQ(Read(Text({1, 2})), Errors());
  EXPECT_EQ(store_->counts().num_written, 2);
  EXPECT_EQ(store_->counts().num_read, 2);
}

TEST_F(DiskStoreTest, FetchsItAnywhere) {
  Reopen();
  Write(Text({1, 2}));
  for (const int64_t skew : {1, 64, 512, 4095}) {
    skew_ = skew;
    EXPECT_EQ(Read(Text({1, 2})), Errors()) << skew;
  }
}

TEST_F(DiskStoreTest, MemoryThatNoDiskReachesIsReadByWayOfABuffer) {
  Reopen();
  Write(Text({1, 2, 3, 4}));
  disk_.faults().unreachable_memory = 0.2;
  int num_errors = 0;
  for (int i = 0; i < 20; ++i) {
    num_errors += static_cast<int>(Read(Text({1}), NumFound(Text({1}))).size());
    if (NumFound(Text({1})) == 0) Write(Text({1}));
  }
  EXPECT_LT(num_errors, 12) << "0.36 of all need a second try";
  disk_.faults().unreachable_memory = 1;
  EXPECT_EQ(Read(Text({1}), NumFound(Text({1}))), Errors{ErrorCode::kIo})
      << "buffers are tried once";
}

TEST_F(DiskStoreTest, AndSoDoesTheNextProcess) {
  Reopen();
  Write(Text({1, 2}));
  Write(Text({1, 3}));
  Reopen();
  EXPECT_EQ(NumFound(Text({1, 2})), 2u);
  EXPECT_EQ(NumFound(Text({1, 3})), 2u);
  EXPECT_EQ(Read(Text({1, 3})), Errors());
  EXPECT_EQ(Write(Text({1, 3})), Errors());
  EXPECT_EQ(store_->counts().num_written, 0) << "they are there";
}

TEST_F(DiskStoreTest, WithAThreadOfItsOwn) {
  has_own_thread_ = true;
  num_slots_ = 40;
  Reopen();
  for (int i = 0; i < 12; ++i) Write(Text({i, 1, 2}));
  Reopen();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(Read(Text({i, 1, 2})), Errors());
  EXPECT_EQ(store_->counts().num_read, 36);
}

TEST_F(DiskStoreTest, MayBeClosedInTheMiddle) {
  has_own_thread_ = true;
  num_slots_ = 64;
  Reopen();
  const TestText text = Text({1, 2, 3, 4, 5, 6, 7, 8, 9});
  std::vector<std::vector<std::byte>> pieces;
  for (size_t page = 0; page < text.num_pages(); ++page) {
    pieces.push_back(PieceOf(text, page, kSmallPieceBytes));
  }
  const std::vector<std::span<const std::byte>> sources(pieces.begin(),
                                                        pieces.end());
  EXPECT_EQ(store_->Write(text.path(), text.kinds, 0, sources).size(), 9u);
  Reopen();
  EXPECT_EQ(Read(text, NumFound(text)), Errors()) << "what is there is whole";
}

TEST_F(DiskStoreTest, MayBeClosedWhileItReads) {
  has_own_thread_ = true;
  num_slots_ = 9;
  Reopen();
  const TestText text = Text({1, 2, 3, 4, 5, 6, 7, 8, 9});
  Write(text);
  for (int i = 0; i < 20; ++i) {
    std::vector<TestTarget> read;
    std::vector<std::span<std::byte>> targets;
    for (size_t page = 0; page < text.num_pages(); ++page) {
      read.emplace_back(kSmallPieceBytes, 0);
      targets.push_back(read.back().piece());
    }
    store_->Read(store_->Find(text.path(), text.num_pages(), kKinds), targets);
    Reopen();
    for (const TestTarget& target : read) EXPECT_TRUE(target.stays_within());
  }
  EXPECT_EQ(Read(text), Errors());
}

TEST_F(DiskStoreTest, SpaceIsBounded) {
  Reopen();
  for (int i = 0; i < 20; ++i) Write(Text({i, i + 1, i + 2}));
  EXPECT_EQ(disk_.num_bytes(), 4 * kSlotBytes);
  EXPECT_EQ(store_->index().num_pieces(), 4);
  EXPECT_EQ(Read(Text({19, 20, 21})), Errors());
}

TEST_F(DiskStoreTest, ASmallerSizeCutsAndAGreaterOneAdds) {
  num_slots_ = 4;
  Reopen();
  Write(Text({1, 2, 3, 4}));
  num_slots_ = 2;
  Reopen();
  const size_t num_left = NumFound(Text({1, 2, 3, 4}));
  EXPECT_LE(num_left, 2u);
  EXPECT_EQ(Read(Text({1, 2, 3, 4}), num_left), Errors());
  num_slots_ = 6;
  Reopen();
  EXPECT_EQ(NumFound(Text({1, 2, 3, 4})), num_left);
  EXPECT_EQ(Write(Text({1, 2, 3, 4, 5, 6})), Errors());
  EXPECT_EQ(NumFound(Text({1, 2, 3, 4, 5, 6})), 6u);
}

TEST_F(DiskStoreTest, AFolderOfAnotherModelIsNotUsed) {
  Reopen();
  Write(Text({1}));
  const auto other = Open("another model");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("model: the folder's KV was made with "
                                       "\"a tiny model\", this model has "
                                       "\"another model\""),
            std::string::npos)
      << other.error().message;
  Reopen();
  EXPECT_EQ(Read(Text({1})), Errors()) << "and is left as it was";
}

TEST_F(DiskStoreTest, ASizeOfLessThanAPageIsRefused) {
  num_slots_ = 0;
  const auto opened = Open();
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("at least 12.0 KiB"), std::string::npos)
      << opened.error().message;
}

TEST_F(DiskStoreTest, ADiskWithoutRoomIsRefused) {
  disk_.faults().max_bytes = kSlotBytes;
  EXPECT_FALSE(Open().ok());
}

TEST_F(DiskStoreTest, AFullDiskFailsTheWriteAlone) {
  Reopen();
  Write(Text({1}));
  disk_.faults().is_full = true;
  EXPECT_EQ(Write(Text({2})), Errors{ErrorCode::kResourceExhausted});
  EXPECT_EQ(NumFound(Text({2})), 0u);
  EXPECT_EQ(Read(Text({1})), Errors());
  disk_.faults().is_full = false;
  EXPECT_EQ(Write(Text({2})), Errors());
  EXPECT_EQ(Read(Text({2})), Errors());
}

TEST_F(DiskStoreTest, AFolderMadeReadOnlyIsReadOnly) {
  Reopen();
  Write(Text({1}));
  disk_.faults().is_read_only = true;
  EXPECT_EQ(Write(Text({2})), Errors{ErrorCode::kIo});
  EXPECT_EQ(Read(Text({1})), Errors());
}

TEST_F(DiskStoreTest, AnErrorOfADiskIsAMissFromThenOn) {
  Reopen();
  Write(Text({1, 2}));
  disk_.faults().read_error = 1;
  EXPECT_EQ(Read(Text({1, 2})), Errors({ErrorCode::kIo, ErrorCode::kIo}));
  disk_.faults().read_error = 0;
  EXPECT_EQ(NumFound(Text({1, 2})), 0u);
  EXPECT_EQ(Write(Text({1, 2})), Errors());
  EXPECT_EQ(Read(Text({1, 2})), Errors());
}

TEST_F(DiskStoreTest, ShortTransfersAreTakenUpAgain) {
  Reopen();
  disk_.faults().short_transfer = 0.3;
  int num_errors = 0;
  for (int i = 0; i < 20; ++i) {
    num_errors += static_cast<int>(Write(Text({i})).size());
    const Errors of_read = Read(Text({i}), NumFound(Text({i})));
    num_errors += static_cast<int>(of_read.size());
    EXPECT_EQ(std::ranges::count(of_read, ErrorCode::kCorrupt), 0);
  }
  EXPECT_LT(num_errors, 20) << "only those that moved nothing at all fail";
  disk_.faults().short_transfer = 1;
  EXPECT_EQ(Write(Text({50})), Errors{ErrorCode::kIo})
      << "a disk that moves less and less comes to nothing";
}

TEST_F(DiskStoreTest, AFlippedBitIsAMiss) {
  num_slots_ = 1;
  for (int i = 0; i < 100; ++i) {
    Reopen();
    Write(Text({i}));
    ASSERT_EQ(NumFound(Text({i})), 1u);
    ASSERT_EQ(Read(Text({i})), Errors());
    disk_.FlipBit();
    EXPECT_EQ(Read(Text({i})), Errors{ErrorCode::kCorrupt});
    EXPECT_EQ(NumFound(Text({i})), 0u);
  }
}

TEST_F(DiskStoreTest, ARootTooLongForATrailerIsNotKept) {
  Reopen();
  TestText text = Text({1});
  text.root = std::string(kMaxDiskRootBytes, 'r');
  EXPECT_EQ(Write(text), Errors());
  EXPECT_EQ(Read(text), Errors());
  EXPECT_EQ(store_->counts().num_read, 1);
  text.root += 'r';
  EXPECT_EQ(Write(text), Errors());
  EXPECT_EQ(NumFound(text), 0u);
}

TEST_F(DiskStoreTest, APieceThatWentMeanwhileIsNotFound) {
  num_slots_ = 1;
  Reopen();
  Write(Text({1}));
  const TestText text = Text({1});
  const auto found = store_->Find(text.path(), 1, kKinds);
  Write(Text({2}));
  std::vector<std::byte> piece(kSmallPieceBytes);
  const std::span<std::byte> target(piece);
  const auto tickets = store_->Read(found, {&target, 1});
  const std::vector<PieceDone> done = store_->Wait();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].ticket, tickets.at(0).ticket);
  EXPECT_EQ(done[0].status.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace winnow
