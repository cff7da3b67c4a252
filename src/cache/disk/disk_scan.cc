#include "cache/disk/disk_scan.h"

#include <array>

#include "base/check.h"

namespace winnow {

std::vector<std::pair<DiskSlot, PieceLabel>> ScanTrailers(
    BlockFolder& folder, const DiskFolderId& id, const DiskSlotLayout& layout,
    int64_t num_slots) {
  const int num_lanes = folder.max_transfers();
  const BlockBuffer bytes = AllocateBlocks(num_lanes * kBlockBytes);
  std::vector<std::byte*> free_blocks;
  for (int i = 0; i < num_lanes; ++i) {
    free_blocks.push_back(bytes.get() + i * kBlockBytes);
  }
  // By slot, while its read is under way.
  std::vector<std::byte*> block_of(static_cast<size_t>(num_slots));
  std::vector<std::pair<DiskSlot, PieceLabel>> found;
  int64_t num_begun = 0, num_ended = 0;
  while (num_ended < num_slots) {
    std::vector<BlockTransfer> reads;
    while (!free_blocks.empty() && num_begun < num_slots) {
      const DiskSlot slot(static_cast<uint32_t>(num_begun++));
      std::byte* block = free_blocks.back();
      free_blocks.pop_back();
      block_of[slot.value()] = block;
      reads.push_back({.tag = slot.value(),
                       .kind = BlockTransfer::Kind::kRead,
                       .offset = layout.Offset(slot) + layout.trailer_offset,
                       .bytes = {block, static_cast<size_t>(kBlockBytes)}});
    }
    folder.Submit(reads);
    std::array<BlockCompletion, 16> completions;
    const size_t num_collected = folder.Collect(completions, /*wait=*/true);
    CHECK(num_collected > 0, "ended={} begun={}", num_ended, num_begun);
    num_ended += static_cast<int64_t>(num_collected);
    for (size_t i = 0; i < num_collected; ++i) {
      std::byte* block = block_of[completions[i].tag];
      free_blocks.push_back(block);
      if (completions[i].num_bytes != kBlockBytes) continue;
      std::optional<PieceLabel> label =
          ReadTrailer(id, {block, static_cast<size_t>(kBlockBytes)});
      if (!label) continue;
      const DiskSlot slot(static_cast<uint32_t>(completions[i].tag));
      found.emplace_back(slot, *std::move(label));
    }
  }
  return found;
}

}  // namespace winnow
