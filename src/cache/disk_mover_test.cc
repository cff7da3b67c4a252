#include "cache/disk_mover.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/faulty_folder.h"
#include "cache/disk_test_pieces.h"

namespace winnow {
namespace {

// A folder that notes how many transfers each Submit begins.
class NotingFolder : public BlockFolder {
 public:
  NotingFolder(std::unique_ptr<BlockFolder> folder, std::vector<size_t>& begun)
      : folder_(std::move(folder)), begun_(begun) {}

  std::string path() const override { return folder_->path(); }
  Result<std::string> ReadSmall(std::string_view name) override {
    return folder_->ReadSmall(name);
  }
  Status WriteSmall(std::string_view name, std::string_view content) override {
    return folder_->WriteSmall(name, content);
  }
  Result<int64_t> num_bytes() const override { return folder_->num_bytes(); }
  Status Resize(int64_t num_bytes) override {
    return folder_->Resize(num_bytes);
  }
  int max_transfers() const override { return folder_->max_transfers(); }
  void Submit(std::span<const BlockTransfer> transfers) override {
    begun_.push_back(transfers.size());
    folder_->Submit(transfers);
  }
  size_t Collect(std::span<BlockCompletion> completions, bool wait) override {
    return folder_->Collect(completions, wait);
  }

 private:
  const std::unique_ptr<BlockFolder> folder_;
  std::vector<size_t>& begun_;
};

// Each call costs a turn of the system, and of a virtual machine's host.
TEST(PieceMoverTest, WhatBeginsTogetherIsSubmittedAtOnce) {
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
      PieceTransfer transfer = {.slot = DiskSlot(i), .label = {.id = {1, i}}};
      if (reads) {
        transfer.target = targets[i].piece();
      } else {
        transfer.source = piece;
      }
      mover.Add(std::move(transfer));
    }
    std::vector<PieceDone> done;
    while (!mover.is_idle()) mover.Pump(true, done);
    for (const PieceDone& one : done) EXPECT_TRUE(one.status.ok());
    // What is read has two parts: the piece, and its trailer.
    EXPECT_EQ(begun, std::vector<size_t>{kPieces * (reads ? 2u : 1u)})
        << (reads ? "reads" : "writes");
  }
  for (const TestTarget& target : targets) {
    EXPECT_TRUE(std::ranges::equal(target.piece(), piece));
  }
}

}  // namespace
}  // namespace winnow
