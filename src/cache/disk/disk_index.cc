#include "cache/disk/disk_index.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {

DiskIndex::DiskIndex(int64_t num_slots, uint64_t session)
    : num_slots_(num_slots), session_(session) {
  CHECK(num_slots > 0 && num_slots < int64_t{kNone}, "num_slots={}", num_slots);
}

uint64_t DiskIndex::HashOf(Parent parent, PageKind kind,
                           std::span<const int32_t> tokens) const {
  const PieceId id = parent.page == kNone ? PieceId() : nodes_[parent.page].id;
  const uint32_t root = parent.page == kNone ? parent.root : 0;
  return hasher_.Hash(id, root, kind, tokens);
}

bool DiskIndex::IsPage(Place place, Parent parent, PageKind kind,
                       std::span<const int32_t> tokens) const {
  const Node& node = nodes_[place];
  return node.parent == parent.page &&
         (parent.page != kNone || node.root == parent.root) &&
         node.kind == kind && std::ranges::equal(node.tokens, tokens);
}

DiskIndex::Place DiskIndex::Child(Parent parent, PageKind kind,
                                  std::span<const int32_t> tokens) const {
  const auto found = pages_.find(HashOf(parent, kind, tokens));
  if (found == pages_.end()) return kNone;
  return IsPage(found->second, parent, kind, tokens) ? found->second : kNone;
}

std::optional<DiskIndex::Parent> DiskIndex::RootOf(std::string_view key) const {
  const auto found = root_of_key_.find(key);
  if (found == root_of_key_.end()) return std::nullopt;
  return Parent{.root = found->second};
}

DiskIndex::Parent DiskIndex::AddRoot(std::string_view key) {
  if (const std::optional<Parent> known = RootOf(key)) return *known;
  const uint32_t root = next_root_++;
  roots_.emplace(root, Root{.key = std::string(key)});
  root_of_key_.emplace(key, root);
  return {.root = root};
}

void DiskIndex::RemoveRootIfEmpty(uint32_t root) {
  const auto found = roots_.find(root);
  if (found->second.num_children > 0) return;
  root_of_key_.erase(found->second.key);
  roots_.erase(found);
}

std::vector<DiskPlace> DiskIndex::Find(const PrefixPath& path, size_t max_pages,
                                       std::span<const PageKind> kinds) const {
  CHECK(max_pages * kPageTokens <= path.tokens.size(), "pages={} tokens={}",
        max_pages, path.tokens.size());
  std::vector<DiskPlace> found;
  std::optional<Parent> parent = RootOf(path.root);
  while (parent && found.size() < max_pages) {
    Place child = kNone;
    for (const PageKind kind : kinds) {
      child = Child(*parent, kind, path.Page(found.size()));
      if (child != kNone) break;
    }
    if (child == kNone || nodes_[child].state != DiskState::kThere) break;
    found.push_back({DiskSlot(child), nodes_[child].id, nodes_[child].kind});
    parent = Parent{.page = child};
  }
  return found;
}

std::vector<DiskPlacement> DiskIndex::Enter(const PrefixPath& path,
                                            std::span<const PageKind> kinds,
                                            size_t first_page) {
  CHECK(kinds.size() * kPageTokens <= path.tokens.size() &&
            path.root.size() <= kMaxDiskRootBytes,
        "kinds={} tokens={} root_bytes={}", kinds.size(), path.tokens.size(),
        path.root.size());
  ++clock_;
  std::vector<DiskPlacement> placed;
  Parent parent = AddRoot(path.root);
  const uint32_t root = parent.root;
  // Its last page may be overwritten on the way.
  ++roots_.at(root).num_children;
  for (size_t page = 0; page < kinds.size(); ++page) {
    const std::span<const int32_t> tokens = path.Page(page);
    Place place = Child(parent, kinds[page], tokens);
    if (place == kNone) {
      if (page < first_page) break;
      // The parent, a leaf until now, must not be the one to go.
      if (parent.page != kNone) Leave(parent.page);
      place = TakeSlot();
      if (place != kNone) {
        Node& node = nodes_[place];
        node.state = DiskState::kWriting;
        node.id = {session_, next_number_++};
        node.kind = kinds[page];
        node.num_pins = 1;
        std::ranges::copy(tokens, node.tokens.begin());
        if (!Hang(place, parent)) {
          node = Node();
          free_.push_back(place);
          place = kNone;
        }
      }
      if (parent.page != kNone) Join(parent.page);
      if (place == kNone) break;
      placed.push_back({page, DiskSlot(place), LabelOf(DiskSlot(place))});
    }
    Touch(place);
    parent = {.page = place};
  }
  --roots_.at(root).num_children;
  RemoveRootIfEmpty(root);
  return placed;
}

DiskIndex::Place DiskIndex::TakeSlot() {
  if (free_.empty() && std::ssize(nodes_) < num_slots_) {
    nodes_.emplace_back();
    return static_cast<Place>(nodes_.size() - 1);
  }
  if (free_.empty()) {
    if (evictable_.empty()) return kNone;
    Drop(DiskSlot(evictable_.begin()->second));
  }
  const Place place = free_.back();
  free_.pop_back();
  return place;
}

bool DiskIndex::Hang(Place place, Parent parent) {
  Node& node = nodes_[place];
  node.hash = HashOf(parent, node.kind, node.tokens);
  if (!pages_.emplace(node.hash, place).second) return false;
  node.parent = parent.page;
  node.root = parent.root;
  if (parent.page == kNone) {
    ++roots_.at(parent.root).num_children;
  } else {
    Leave(parent.page);
    Place& first = nodes_[parent.page].first_child;
    node.next_sibling = first;
    if (first != kNone) nodes_[first].previous_sibling = place;
    first = place;
  }
  return true;
}

void DiskIndex::Unhang(Place place) {
  Node& node = nodes_[place];
  if (node.parent == kNone) {
    --roots_.at(node.root).num_children;
    return;
  }
  Place& before = node.previous_sibling == kNone
                      ? nodes_[node.parent].first_child
                      : nodes_[node.previous_sibling].next_sibling;
  before = node.next_sibling;
  if (node.next_sibling != kNone) {
    nodes_[node.next_sibling].previous_sibling = node.previous_sibling;
  }
}

void DiskIndex::Drop(DiskSlot slot) {
  const Place top = slot.value();
  CHECK(top < nodes_.size(), "slot={} used={}", top, nodes_.size());
  if (nodes_[top].state == DiskState::kLost) return;
  CHECK(nodes_[top].state != DiskState::kFree, "slot={} is free", top);
  const Place parent = nodes_[top].parent;
  const uint32_t root = nodes_[top].root;
  Unhang(top);
  std::vector<Place> lost = {top};
  for (size_t i = 0; i < lost.size(); ++i) {
    const Place place = lost[i];
    for (Place child = nodes_[place].first_child; child != kNone;
         child = nodes_[child].next_sibling) {
      lost.push_back(child);
    }
    Leave(place);
    pages_.erase(nodes_[place].hash);
  }
  for (const Place place : lost) {
    const uint32_t num_pins = nodes_[place].num_pins;
    nodes_[place] = Node();
    if (num_pins > 0) {
      nodes_[place].state = DiskState::kLost;
      nodes_[place].num_pins = num_pins;
    } else {
      free_.push_back(place);
    }
  }
  if (parent != kNone) {
    Join(parent);
  } else {
    RemoveRootIfEmpty(root);
  }
}

void DiskIndex::Written(DiskSlot slot) {
  Node& node = nodes_.at(slot.value());
  if (node.state != DiskState::kLost) {
    CHECK(node.state == DiskState::kWriting, "slot={} state={}", slot.value(),
          static_cast<int>(node.state));
    node.state = DiskState::kThere;
  }
  Unpin(slot);
}

bool DiskIndex::Pin(const DiskPlace& place) {
  const Place at = place.slot.value();
  CHECK(at < static_cast<uint64_t>(num_slots_), "slot={} num_slots={}", at,
        num_slots_);
  if (at >= nodes_.size() || nodes_[at].state != DiskState::kThere ||
      nodes_[at].id != place.id) {
    return false;
  }
  Leave(at);
  ++nodes_[at].num_pins;
  nodes_[at].last_use = ++clock_;
  return true;
}

void DiskIndex::Unpin(DiskSlot slot) {
  const Place place = slot.value();
  Node& node = nodes_.at(place);
  CHECK(node.num_pins > 0, "slot={} is not pinned", place);
  --node.num_pins;
  if (node.state == DiskState::kLost && node.num_pins == 0) {
    node = Node();
    free_.push_back(place);
    return;
  }
  Join(place);
}

PieceLabel DiskIndex::LabelOf(DiskSlot slot) const {
  const Node& node = nodes_.at(slot.value());
  CHECK(node.num_pins > 0 && node.state != DiskState::kLost,
        "slot={} pins={} state={}", slot.value(), node.num_pins,
        static_cast<int>(node.state));
  PieceLabel label = {.id = node.id, .kind = node.kind, .tokens = node.tokens};
  if (node.parent == kNone) {
    label.root = roots_.at(node.root).key;
  } else {
    label.parent = nodes_[node.parent].id;
  }
  return label;
}

void DiskIndex::Touch(Place place) {
  Leave(place);
  nodes_[place].last_use = clock_;
  Join(place);
}

void DiskIndex::Leave(Place place) {
  evictable_.erase({nodes_[place].last_use, place});
}

void DiskIndex::Join(Place place) {
  const Node& node = nodes_[place];
  if (node.state != DiskState::kThere || node.num_pins > 0 ||
      node.first_child != kNone) {
    return;
  }
  evictable_.emplace(node.last_use, place);
}

}  // namespace winnow
