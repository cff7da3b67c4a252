// Which slots hold the KV of which beginnings of texts, and which is next to be
// overwritten.
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

// Where a page lies: good as long as that piece does.
struct DiskPlace {
  DiskSlot slot;
  PieceId id;
  PageKind kind = 0;
};

// A page to be written: where, and what its trailer is to say.
struct DiskPlacement {
  size_t page = 0;
  DiskSlot slot;
  PieceLabel label;
};

// A tree of pieces, found as a PrefixIndex finds pages: by a hash of parent,
// kind and tokens, and only where all three are equal. A piece is named by the
// write that made it, not by its slot, so the tree is put together from
// trailers in any order, and one that has lost its parent is left out. Decides,
// and touches no byte. Used by one thread.
//
// A piece is found once it is written. One that is being written or read is
// pinned, and keeps its slot; so does whatever lies above it. The leaf that
// was used longest ago is overwritten first. What BrokenInvariants lists holds
// after every call.
//
// (PrefixIndex, with slots for KV blocks, was the road not taken: it is put
// together from paths, knows no piece that is half there, and cannot lose one
// from its middle, which is what a damaged piece means.)
class DiskIndex {
 public:
  // `session` begins the ids of pieces that this object places.
  DiskIndex(int64_t num_slots, uint64_t session);

  // What trailers on the disk say. Of equal pages the last written is kept;
  // pieces without a parent are not. REQUIRES: nothing was placed before.
  void Restore(std::vector<std::pair<DiskSlot, PieceLabel>> found);

  // The longest beginning of the path that is there, at most `max_pages`. A
  // page is of the first of `kinds` that is there in its place.
  std::vector<DiskPlace> Find(const PrefixPath& path, size_t max_pages,
                              std::span<const PageKind> kinds) const;

  // Finds slots for the pages of a path, of `kinds`, from `first_page` on:
  // those that are not there, up to one for which no slot can be had. Placed
  // pages are pinned until Written or Drop and Unpin. What is there counts as
  // used. Nothing where a page before the first is neither there nor being
  // written. REQUIRES: as many tokens as kinds; the root fits a trailer.
  std::vector<DiskPlacement> Enter(const PrefixPath& path,
                                   std::span<const PageKind> kinds,
                                   size_t first_page);
  // The placed piece is there, and no longer pinned.
  void Written(DiskSlot slot);

  // Keeps a piece, and counts as a use of it; false where it is gone.
  bool Pin(const DiskPlace& place);
  // Takes back what Pin or Enter gave.
  void Unpin(DiskSlot slot);

  // The piece is lost, and all below it: they are found no more, and their
  // slots are free once nothing pins them. Nothing where it is lost already.
  void Drop(DiskSlot slot);

  // REQUIRES: the slot is pinned. What its trailer says.
  PieceLabel LabelOf(DiskSlot slot) const;

  int64_t num_slots() const { return num_slots_; }
  int64_t num_pieces() const { return std::ssize(pages_); }
  DiskSnapshot Snapshot() const;

 private:
  using Place = uint32_t;  // of nodes_: a slot's number
  static constexpr Place kNone = 0xffffffff;

  struct Node {
    DiskState state = DiskState::kFree;
    PieceId id;
    Place parent = kNone;  // none: `root` is its parent
    uint32_t root = 0;
    PageKind kind = 0;
    std::array<int32_t, kPageTokens> tokens = {};
    uint64_t hash = 0;
    uint64_t last_use = 0;
    uint32_t num_pins = 0;
    Place first_child = kNone, next_sibling = kNone, previous_sibling = kNone;
  };
  // What pages hang on: a page, or a root.
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
  // kNone where it is not there, or another page of its hash is.
  Place Child(Parent parent, PageKind kind,
              std::span<const int32_t> tokens) const;
  std::optional<Parent> RootOf(std::string_view key) const;
  Parent AddRoot(std::string_view key);
  void RemoveRootIfEmpty(uint32_t root);
  // A slot that holds nothing, if need be after the loss of a leaf.
  Place TakeSlot();
  void GrowTo(size_t num_nodes);
  // A node with id, kind and tokens becomes a page of the tree; false where a
  // page of its hash is there.
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
  std::vector<Node> nodes_;  // as many as slots were ever used
  std::vector<Place> free_;  // of them
  std::unordered_map<uint64_t, Place> pages_;  // by hash
  std::map<uint32_t, Root> roots_;
  std::map<std::string, uint32_t, std::less<>> root_of_key_;
  uint32_t next_root_ = 0;
  std::set<std::pair<uint64_t, Place>> evictable_;  // by last use
  // Of pieces while Restore puts them together.
  std::map<PieceId, Place> place_of_id_;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_INDEX_H_
