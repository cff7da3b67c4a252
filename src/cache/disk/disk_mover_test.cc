#include "cache/disk/disk_mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/faulty_folder.h"
#include "base/passing_folder.h"
#include "cache/disk/disk_test_pieces.h"

namespace winnow {
namespace {

// A folder that notes how many transfers each Submit begins.
class NotingFolder final : public PassingFolder {
 public:
  NotingFolder(std::unique_ptr<BlockFolder> real, std::vector<size_t>& begun)
      : PassingFolder(std::move(real)), begun_(begun) {}

  void Submit(std::span<const BlockTransfer> transfers) override {
    begun_.push_back(transfers.size());
    PassingFolder::Submit(transfers);
  }

 private:
  std::vector<size_t>& begun_;
};

TEST(PieceMoverTest, ReadsThatBeginTogetherAreSubmittedAtOnce) {
  constexpr int kPieces = 3;
  constexpr int64_t kPieceBytes = 2 * kBlockBytes;
  const DiskSlotLayout layout(kPieceBytes);
  FaultyDisk disk(1);
  std::vector<size_t> begun;
  auto folder = std::make_unique<NotingFolder>(disk.Open(), begun);
  ASSERT_TRUE(folder->Resize(kPieces * layout.slot_bytes).ok());
  PieceMover mover(std::move(folder), {1, 2}, layout, 8);

  const std::vector<std::byte> piece(size_t{kPieceBytes}, std::byte{7});
  TestTarget targets[kPieces] = {
      {kPieceBytes, 0}, {kPieceBytes, 0}, {kPieceBytes, 0}};
  for (const bool reads : {false, true}) {
    begun.clear();
    for (uint32_t i = 0; i < kPieces; ++i) {
      PieceTransfer transfer = {
          .ticket = i, .slot = DiskSlot(i), .label = {.id = {1, i}}};
      if (reads) {
        transfer.target = targets[i].piece();
      } else {
        transfer.source = piece;
      }
      mover.Add(std::move(transfer));
    }
    std::vector<PieceDone> done;
    while (!mover.is_idle()) mover.Pump(true, done);
    ASSERT_EQ(done.size(), kPieces);
    for (const PieceDone& one : done) {
      EXPECT_TRUE(one.status.ok()) << one.ticket;
    }
    // What is read has two parts, the piece and its trailer; what is written
    // is on its way while the next one is sealed.
    EXPECT_EQ(begun, reads ? std::vector<size_t>{2 * kPieces}
                           : std::vector<size_t>(kPieces, 1));
  }
  for (const TestTarget& target : targets) {
    EXPECT_TRUE(std::ranges::equal(target.piece(), piece));
  }
}

}  // namespace
}  // namespace winnow
