// DiskIndex: finds the disk slots that hold the KV of a text's first pages, and
// the slot to overwrite next.
#ifndef WINNOW_CACHE_DISK_DISK_INDEX_H_
#define WINNOW_CACHE_DISK_DISK_INDEX_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/disk/disk_invariants.h"
#include "cache/disk/disk_piece.h"

namespace winnow {

// Where a page lies. Valid as long as the piece exists.
struct DiskPlace {
  DiskSlot slot;
  PieceId id;
  PageKind kind = 0;
};

// A page to be written: its slot, and the label for its trailer.
struct DiskPlacement {
  size_t page = 0;
  DiskSlot slot;
  PieceLabel label;
};

// A tree of pieces, found as a PrefixIndex finds pages. A hash of parent, kind
// and tokens finds a piece; all three are then compared. A piece is named by
// the write that made it, not by its slot. Hence Restore rebuilds the tree from
// trailers in any order, and leaves out a piece without its parent. Touches no
// bytes. Used by one thread.
//
// A piece can be found once it is written. A piece being written or read is
// pinned: it and all pieces above it keep their slots. The least recently used
// leaf is overwritten first. The invariants of BrokenInvariants hold after
// every call.
//
// The road not taken was PrefixIndex, with slots for KV blocks. It is built
// from paths, has no half-written pieces, and cannot lose a page from the
// middle, as a damaged piece demands.
class DiskIndex {
 public:
  // `session` is the first part of the ids of pieces that this object places.
  DiskIndex(int64_t num_slots, uint64_t session);

  // Rebuilds the tree from the trailers on the disk. Keeps the last written of
  // equal pages, and drops pieces without a parent. REQUIRES: nothing was
  // placed before.
  void Restore(std::vector<std::pair<DiskSlot, PieceLabel>> found);

  // The longest known beginning of the path, at most `max_pages`. Each page has
  // the first of `kinds` that is known at its place.
  std::vector<DiskPlace> Find(const PrefixPath& path, size_t max_pages,
                              std::span<const PageKind> kinds) const;

  // Finds slots for the missing pages of a path from `first_page` on, up to the
  // first page without a free slot. Placed pages stay pinned until Written, or
  // until Drop and Unpin. Known pages count as used. Empty if a page before
  // `first_page` is neither known nor being written. REQUIRES: tokens for all
  // `kinds`; the root fits a trailer.
  std::vector<DiskPlacement> Enter(const PrefixPath& path,
                                   std::span<const PageKind> kinds,
                                   size_t first_page);
  // Declares that the placed piece is written, and unpins it.
  void Written(DiskSlot slot);

  // Pins a piece, and counts as a use of it. False if the piece is gone.
  bool Pin(const DiskPlace& place);
  // Undoes a Pin or an Enter.
  void Unpin(DiskSlot slot);

  // Declares that the piece and all pieces below it are lost. They are no
  // longer found, and their slots become free once they are unpinned. Does
  // nothing if the piece is lost already.
  void Drop(DiskSlot slot);

  // The label of the slot's trailer. REQUIRES: the slot is pinned.
  PieceLabel LabelOf(DiskSlot slot) const;

  int64_t num_slots() const { return num_slots_; }
  int64_t num_pieces() const { return std::ssize(pages_); }
  DiskSnapshot Snapshot() const;

 private:
  using Place = uint32_t;  // index into nodes_: a slot's number
  static constexpr Place kNone = 0xffffffff;

  struct Node {
    DiskState state = DiskState::kFree;
    PieceId id;
    Place parent = kNone;  // none: a child of `root`
    uint32_t root = 0;
    PageKind kind = 0;
    std::array<int32_t, kPageTokens> tokens = {};
    uint64_t hash = 0;
    uint64_t last_use = 0;
    uint32_t num_pins = 0;
    Place first_child = kNone, next_sibling = kNone, previous_sibling = kNone;
  };
  // A parent of pages: a page, or a root.
  struct Parent {
    Place page = kNone;
    uint32_t root = 0;
  };
  struct Root {
    std::string key;
    uint32_t num_children = 0;
  };

  uint64_t HashOf(Parent parent, PageKind kind,
                  std::span<const int32_t> tokens) const;
  bool IsPage(Place place, Parent parent, PageKind kind,
              std::span<const int32_t> tokens) const;
  // kNone if there is no such child, or if another page has its hash.
  Place Child(Parent parent, PageKind kind,
              std::span<const int32_t> tokens) const;
  std::optional<Parent> RootOf(std::string_view key) const;
  Parent AddRoot(std::string_view key);
  void RemoveRootIfEmpty(uint32_t root);
  // An empty slot; evicts a leaf if necessary.
  Place TakeSlot();
  void GrowTo(size_t num_nodes);
  // Adds a node with id, kind and tokens to the tree. False if a page with its
  // hash is there.
  bool Hang(Place place, Parent parent);
  void Unhang(Place place);
  void RestorePiece(DiskSlot slot, const PieceLabel& label);
  void Touch(Place place);
  void Leave(Place place);
  void Join(Place place);

  const int64_t num_slots_;
  const uint64_t session_;
  uint64_t next_number_ = 1;
  uint64_t clock_ = 0;
  PageHasher hasher_;
  std::vector<Node> nodes_;                    // one for each slot ever used
  std::vector<Place> free_;                    // among these
  std::unordered_map<uint64_t, Place> pages_;  // by hash
  std::map<uint32_t, Root> roots_;
  std::map<std::string, uint32_t, std::less<>> root_of_key_;
  uint32_t next_root_ = 0;
  std::set<std::pair<uint64_t, Place>> evictable_;  // by last use
  // The pieces during Restore.
  std::map<PieceId, Place> place_of_id_;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_INDEX_H_
