#include "cache/disk/disk_piece.h"

#include <gtest/gtest.h>

#include <vector>

namespace winnow {
namespace {

constexpr DiskFolderId kFolder = {1, 2};

PieceLabel Label() {
  PieceLabel label = {.id = {5, 6}, .root = "root", .kind = 3};
  for (int i = 0; i < kPageTokens; ++i) {
    label.tokens[static_cast<size_t>(i)] = i * i;
  }
  return label;
}

std::vector<std::byte> SealedSlot(const DiskSlotLayout& layout,
                                  const PieceLabel& label) {
  std::vector<std::byte> slot(static_cast<size_t>(layout.slot_bytes),
                              std::byte{0xab});
  SealSlot(layout, kFolder, label, slot);
  return slot;
}

std::span<const std::byte> TrailerOf(const DiskSlotLayout& layout,
                                     const std::vector<std::byte>& slot) {
  return std::span(slot).subspan(static_cast<size_t>(layout.trailer_offset));
}

TEST(DiskPiece, SlotsAreWholeBlocks) {
  const DiskSlotLayout small(1), whole(8192), more(8193);
  EXPECT_EQ(small.trailer_offset, 4096);
  EXPECT_EQ(small.slot_bytes, 8192);
  EXPECT_EQ(whole.trailer_offset, 8192);
  EXPECT_EQ(more.trailer_offset, 12288);
  EXPECT_EQ(more.Offset(DiskSlot(3)), 3 * 16384);
}

TEST(DiskPiece, TrailerSaysWhatWasSealed) {
  const DiskSlotLayout layout(5000);
  PieceLabel label = Label();
  EXPECT_EQ(ReadTrailer(kFolder, TrailerOf(layout, SealedSlot(layout, label))),
            label);
  label.root = std::string(kMaxDiskRootBytes, 'r');
  EXPECT_EQ(ReadTrailer(kFolder, TrailerOf(layout, SealedSlot(layout, label))),
            label);
  label.root = "";
  label.parent = {9, 4};
  EXPECT_EQ(ReadTrailer(kFolder, TrailerOf(layout, SealedSlot(layout, label))),
            label);
}

TEST(DiskPiece, TrailerOfAnotherFolderIsNone) {
  const DiskSlotLayout layout(5000);
  const std::vector<std::byte> slot = SealedSlot(layout, Label());
  EXPECT_FALSE(ReadTrailer({1, 3}, TrailerOf(layout, slot)));
  EXPECT_FALSE(IsWhole(layout, {1, 3}, Label(), {}, slot));
  const std::vector<std::byte> zeros(kBlockBytes);
  EXPECT_FALSE(ReadTrailer(kFolder, zeros));
}

TEST(DiskPiece, EveryByteOfASlotCounts) {
  const DiskSlotLayout layout(4000);
  const std::vector<std::byte> slot = SealedSlot(layout, Label());
  ASSERT_TRUE(IsWhole(layout, kFolder, Label(), {}, slot));
  for (size_t i = 0; i < slot.size(); ++i) {
    std::vector<std::byte> damaged = slot;
    damaged[i] ^= std::byte{1} << (i % 8);
    EXPECT_FALSE(IsWhole(layout, kFolder, Label(), {}, damaged))
        << "byte " << i;
  }
}

TEST(DiskPiece, ASlotInTwoPlacesIsTheSame) {
  const DiskSlotLayout layout(9000);
  const std::vector<std::byte> slot = SealedSlot(layout, Label());
  const auto is_whole = [&](std::span<const std::byte> bytes, size_t cut) {
    return IsWhole(layout, kFolder, Label(), bytes.first(cut),
                   bytes.subspan(cut));
  };
  for (size_t cut = 0; cut <= 3 * size_t{kBlockBytes}; cut += 256) {
    EXPECT_TRUE(is_whole(slot, cut)) << cut;
    for (size_t i = 0; i < slot.size(); i += 500) {
      std::vector<std::byte> damaged = slot;
      damaged[i] ^= std::byte{1};
      EXPECT_FALSE(is_whole(damaged, cut)) << "byte " << i << " of " << cut;
    }
  }
}

TEST(DiskPiece, AnotherLabelIsAnotherPiece) {
  const DiskSlotLayout layout(5000);
  const std::vector<std::byte> slot = SealedSlot(layout, Label());
  std::vector<PieceLabel> others(6, Label());
  others[0].id.session += 1;
  others[1].id.number += 1;
  others[2].parent.number = 1;
  others[3].root = "toor";
  others[4].kind = 4;
  others[5].tokens[31] = -1;
  for (const PieceLabel& other : others) {
    EXPECT_FALSE(IsWhole(layout, kFolder, other, {}, slot));
  }
}

// What lies there after a write that overtook another one's beginning or end.
TEST(DiskPiece, TornAtAnyByteIsNotWhole) {
  const DiskSlotLayout layout(4096);
  PieceLabel label = Label();
  const std::vector<std::byte> old_slot = SealedSlot(layout, label);
  label.id.number += 1;
  std::vector<std::byte> slot(old_slot.size(), std::byte{0x17});
  SealSlot(layout, kFolder, label, slot);
  for (size_t cut = 1; cut < slot.size(); ++cut) {
    std::vector<std::byte> torn = old_slot;
    std::copy_n(slot.begin(), cut, torn.begin());
    // The last bytes of both may be the same.
    const bool is_old = torn == old_slot, is_whole = torn == slot;
    EXPECT_EQ(IsWhole(layout, kFolder, label, {}, torn), is_whole) << cut;
    EXPECT_EQ(IsWhole(layout, kFolder, Label(), {}, torn), is_old) << cut;
  }
}

TEST(DiskPiece, HashesAreOfTheProcess) {
  const std::vector<int32_t> tokens(kPageTokens, 1);
  const PageHasher one, another;
  EXPECT_EQ(one.Hash({1, 2}, 0, 0, tokens), one.Hash({1, 2}, 0, 0, tokens));
  EXPECT_NE(one.Hash({1, 2}, 0, 0, tokens), one.Hash({1, 2}, 0, 1, tokens));
  EXPECT_NE(one.Hash({}, 0, 0, tokens), one.Hash({}, 1, 0, tokens));
  EXPECT_NE(one.Hash({1, 2}, 0, 0, tokens), another.Hash({1, 2}, 0, 0, tokens));
}

}  // namespace
}  // namespace winnow
