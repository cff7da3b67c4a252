// A piece on disk: the bytes of a page over all layers, and a trailer that says
// which page it is and whether all of it has arrived.
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

// Which place of the file, each room for one piece and its trailer.
using DiskSlot = Id<struct DiskSlotTag, uint32_t>;

// Which folder, drawn when it is begun: a piece of another one is none.
using DiskFolderId = std::array<uint64_t, 2>;

// Which write of which process. Never the same twice: a child that names its
// parent by this means that very piece, whatever has lain in its slot since.
struct PieceId {
  uint64_t session = 0;  // drawn by the process that wrote it
  uint64_t number = 0;   // counts up, also over sessions; 0: no piece
  friend auto operator<=>(const PieceId&, const PieceId&) = default;
};

// Which page a piece is: compared whole, so no hash is ever trusted.
struct PieceLabel {
  PieceId id;
  PieceId parent = {};    // number 0: the text begins here, under `root`
  std::string root = {};  // as PrefixPath's; empty where there is a parent
  PageKind kind = 0;
  std::array<int32_t, kPageTokens> tokens = {};
  friend bool operator==(const PieceLabel&, const PieceLabel&) = default;
};

// The longest root that a trailer has room for.
inline constexpr size_t kMaxDiskRootBytes = 3876;

// Where things lie in a slot: the piece, zeros up to a block, the trailer.
struct DiskSlotLayout {
  // REQUIRES: piece_bytes > 0.
  explicit DiskSlotLayout(int64_t num_piece_bytes);

  int64_t Offset(DiskSlot slot) const { return slot.value() * slot_bytes; }

  int64_t piece_bytes;
  int64_t trailer_offset;  // within the slot
  int64_t slot_bytes;
};

// Makes `slot`, which holds a piece already, whole: zeros behind it and its
// trailer. REQUIRES: slot_bytes of it; root.size() <= kMaxDiskRootBytes.
void SealSlot(const DiskSlotLayout& layout, const DiskFolderId& folder,
              const PieceLabel& label, std::span<std::byte> slot);

// Reads a trailer alone; nothing where it is none, damaged, or of another
// folder. The piece before it may still be torn. REQUIRES: kBlockBytes.
std::optional<PieceLabel> ReadTrailer(const DiskFolderId& folder,
                                      std::span<const std::byte> trailer);

// Whether a slot holds that very piece, to the byte. It lies in two places:
// `first`, which may be empty, and `rest`, with its trailer.
// REQUIRES: slot_bytes of it.
bool IsWhole(const DiskSlotLayout& layout, const DiskFolderId& folder,
             const PieceLabel& label, std::span<const std::byte> first,
             std::span<const std::byte> rest);

// For tables in memory alone, keyed by what only this process knows: nobody
// who chooses tokens can make pages of one hash.
class PageHasher {
 public:
  PageHasher();
  uint64_t Hash(PieceId parent, uint32_t root, PageKind kind,
                std::span<const int32_t> tokens) const;  // [kPageTokens]

 private:
  std::array<uint64_t, 24> secret_;  // drawn
};

// A number that no other process draws.
uint64_t DrawNumber();

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_PIECE_H_
