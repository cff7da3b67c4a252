// DiskIndex::Restore and Snapshot: the tree from the outside, and to it.
#include <algorithm>

#include "base/check.h"
#include "cache/disk/disk_index.h"

namespace winnow {

void DiskIndex::Restore(std::vector<std::pair<DiskSlot, PieceLabel>> found) {
  CHECK(nodes_.empty(), "nodes={}", nodes_.size());
  // A parent was written before its children, so its number is smaller.
  std::ranges::sort(found, {}, [](const auto& piece) {
    return std::pair(piece.second.id.number, piece.second.id.session);
  });
  size_t num_nodes = 0;
  for (const auto& [slot, label] : found) {
    CHECK(slot.value() < static_cast<uint64_t>(num_slots_),
          "slot={} num_slots={}", slot.value(), num_slots_);
    num_nodes = std::max<size_t>(num_nodes, slot.value() + 1);
    next_number_ = std::max(next_number_, label.id.number + 1);
  }
  nodes_.resize(num_nodes);
  for (const auto& [slot, label] : found) RestorePiece(slot, label);
  place_of_id_.clear();
  free_.clear();
  for (size_t place = num_nodes; place-- > 0;) {
    if (nodes_[place].state == DiskState::kFree) {
      free_.push_back(static_cast<Place>(place));
    }
  }
}

void DiskIndex::RestorePiece(DiskSlot slot, const PieceLabel& label) {
  Parent parent;
  if (label.parent.number == 0) {
    parent = AddRoot(label.root);
  } else {
    const auto at = place_of_id_.find(label.parent);
    // It was never there, or went as an older copy of another.
    if (at == place_of_id_.end() || nodes_[at->second].id != label.parent) {
      return;
    }
    parent.page = at->second;
  }
  const Place older = Child(parent, label.kind, label.tokens);
  if (older != kNone) Drop(DiskSlot(older));
  // Its root may have gone with that.
  if (parent.page == kNone) parent = AddRoot(label.root);
  const Place place = slot.value();
  Node& node = nodes_[place];
  node.state = DiskState::kThere;
  node.id = label.id;
  node.kind = label.kind;
  node.tokens = label.tokens;
  node.last_use = ++clock_;
  if (!Hang(place, parent)) {
    node = Node();
    if (parent.page == kNone) RemoveRootIfEmpty(parent.root);
    return;
  }
  place_of_id_[label.id] = place;
  Join(place);
}

DiskSnapshot DiskIndex::Snapshot() const {
  DiskSnapshot snapshot = {.num_slots = num_slots_,
                           .num_used_slots = std::ssize(nodes_),
                           .num_pieces = num_pieces()};
  for (const auto& [id, root] : roots_) {
    snapshot.roots.push_back({id, root.num_children});
  }
  for (Place place = 0; place < nodes_.size(); ++place) {
    const Node& node = nodes_[place];
    if (node.state == DiskState::kFree) continue;
    DiskPieceSnapshot piece = {.slot = place,
                               .state = node.state,
                               .number = node.id.number,
                               .num_pins = node.num_pins,
                               .last_use = node.last_use};
    if (node.state != DiskState::kLost) {
      const Parent parent = {.page = node.parent, .root = node.root};
      piece.is_found = Child(parent, node.kind, node.tokens) == place;
      if (node.parent == kNone) {
        piece.root = node.root;
      } else {
        piece.parent = node.parent;
      }
    }
    for (Place child = node.first_child; child != kNone;
         child = nodes_[child].next_sibling) {
      piece.children.push_back(child);
    }
    snapshot.pieces.push_back(std::move(piece));
  }
  snapshot.free = free_;
  for (const auto& [last_use, place] : evictable_) {
    snapshot.evictable.push_back(place);
  }
  return snapshot;
}

}  // namespace winnow
