// A piece on disk: a page's bytes over all layers, and a trailer. The trailer
// names the page and proves that all bytes have arrived.
#ifndef WINNOW_CACHE_DISK_DISK_PIECE_H_
#define WINNOW_CACHE_DISK_DISK_PIECE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/block_folder.h"
#include "base/ids.h"
#include "kv/prefix_index.h"

namespace winnow {

// The number of a place in the file, with room for one piece and its trailer.
using DiskSlot = Id<struct DiskSlotTag, uint32_t>;

// A folder's id, drawn when the folder is begun. Pieces of another folder are
// rejected.
using DiskFolderId = std::array<uint64_t, 2>;

// Names one write of one process, and is never reused. A child names its parent
// by this id, so it means that write, whatever has lain in the slot since.
struct PieceId {
  uint64_t session = 0;  // drawn by the writing process
  uint64_t number = 0;   // counts up, across sessions too; 0: no piece
  friend auto operator<=>(const PieceId&, const PieceId&) = default;
};

// The page that a piece holds. Labels are compared whole, so no hash is
// trusted.
struct PieceLabel {
  PieceId id;
  PieceId parent = {};    // number 0: the text begins here, under `root`
  std::string root = {};  // as in PrefixPath; empty if there is a parent
  PageKind kind = 0;
  std::array<int32_t, kPageTokens> tokens = {};
  friend bool operator==(const PieceLabel&, const PieceLabel&) = default;
};

// The longest root that fits a trailer.
inline constexpr size_t kMaxDiskRootBytes = 3876;

// The layout of a slot: the piece, zeros up to a block, the trailer.
struct DiskSlotLayout {
  // REQUIRES: piece_bytes > 0.
  explicit DiskSlotLayout(int64_t num_piece_bytes);

  int64_t Offset(DiskSlot slot) const { return slot.value() * slot_bytes; }

  int64_t piece_bytes;
  int64_t trailer_offset;  // within the slot
  int64_t slot_bytes;
};

// Completes `slot`, which holds a piece: writes zeros behind it and the
// trailer. REQUIRES: slot.size() == slot_bytes; root.size() <=
// kMaxDiskRootBytes.
void SealSlot(const DiskSlotLayout& layout, const DiskFolderId& folder,
              const PieceLabel& label, std::span<std::byte> slot);

// Reads a trailer alone. Nothing if it is no trailer, damaged, or of another
// folder. The piece before it may still be torn. REQUIRES: trailer.size() ==
// kBlockBytes.
std::optional<PieceLabel> ReadTrailer(const DiskFolderId& folder,
                                      std::span<const std::byte> trailer);

// True if a slot holds exactly the labelled piece. The slot's bytes lie in two
// places: `first`, which may be empty, and `rest`, with the trailer. REQUIRES:
// together they have slot_bytes.
bool IsWhole(const DiskSlotLayout& layout, const DiskFolderId& folder,
             const PieceLabel& label, std::span<const std::byte> first,
             std::span<const std::byte> rest);

// A hash for tables in memory alone. Its key is secret to the process, so
// nobody can choose tokens to make pages collide.
class PageHasher {
 public:
  PageHasher();
  uint64_t Hash(PieceId parent, uint32_t root, PageKind kind,
                std::span<const int32_t> tokens) const;  // [kPageTokens]

 private:
  std::array<uint64_t, 24> secret_;  // drawn
};

// A random number that differs between processes.
uint64_t DrawNumber();

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_PIECE_H_
