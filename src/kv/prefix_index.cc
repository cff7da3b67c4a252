#include "kv/prefix_index.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

// A multiplication spreads the bits upwards, the shift brings them back down
// (as in Knuth, TAOCP 3, 6.4, with 2^64 divided by the golden ratio). The
// addition keeps zeros after zeros from staying zero.
uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = ((hash ^ word) + 0xd1b54a32d192ed03) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

}  // namespace

PrefixIndex::NodeId PrefixIndex::NodeOf(ExtentId extent) const {
  CHECK(extent.value() < node_of_extent_.size(), "extent={} num_extents={}",
        extent.value(), node_of_extent_.size());
  return node_of_extent_[extent.value()];
}

PrefixIndex::NodeId PrefixIndex::RootOf(std::string_view key) const {
  const auto found = roots_.find(key);
  return found == roots_.end() ? kNone : found->second;
}

uint64_t PrefixIndex::HashOf(NodeId parent, PageKind kind,
                             std::span<const int32_t> tokens) const {
  uint64_t hash = Mix(nodes_[parent].hash, kind);
  for (size_t i = 0; i < kPageTokens; i += 2) {
    const auto low = static_cast<uint32_t>(tokens[i]);
    const auto high = static_cast<uint32_t>(tokens[i + 1]);
    hash = Mix(hash, low | uint64_t{high} << 32);
  }
  return hash & hash_mask_;
}

PrefixIndex::NodeId PrefixIndex::At(uint64_t hash) const {
  const auto found = pages_.find(hash);
  return found == pages_.end() ? kNone : found->second;
}

bool PrefixIndex::IsPage(NodeId node, NodeId parent, PageKind kind,
                         std::span<const int32_t> tokens) const {
  const Node& known = nodes_[node];
  return known.parent == parent && known.kind == kind &&
         std::equal(tokens.begin(), tokens.end(), known.tokens.begin());
}

PrefixIndex::NodeId PrefixIndex::Child(NodeId parent, PageKind kind,
                                       std::span<const int32_t> tokens) const {
  const NodeId node = At(HashOf(parent, kind, tokens));
  return node != kNone && IsPage(node, parent, kind, tokens) ? node : kNone;
}

PrefixHit PrefixIndex::Find(const PrefixPath& path, size_t max_pages,
                            std::span<const PageKind> kinds) const {
  CHECK(max_pages * kPageTokens <= path.tokens.size(), "pages={} tokens={}",
        max_pages, path.tokens.size());
  PrefixHit hit;
  NodeId parent = RootOf(path.root);
  while (parent != kNone && hit.extents.size() < max_pages) {
    NodeId child = kNone;
    for (const PageKind kind : kinds) {
      child = Child(parent, kind, path.Page(hit.extents.size()));
      if (child != kNone) break;
    }
    if (child != kNone) {
      hit.extents.push_back(nodes_[child].extent);
      hit.kinds.push_back(nodes_[child].kind);
    }
    parent = child;
  }
  return hit;
}

std::vector<ExtentId> PrefixIndex::Enter(const PrefixPath& path,
                                         std::span<const PageKind> kinds,
                                         std::span<const ExtentId> extents,
                                         bool passes) {
  CHECK(kinds.size() == extents.size() &&
            extents.size() * kPageTokens <= path.tokens.size(),
        "kinds={} extents={} tokens={}", kinds.size(), extents.size(),
        path.tokens.size());
  std::vector<ExtentId> taken;
  if (extents.empty()) return taken;
  ++clock_;
  NodeId parent = RootOf(path.root);
  if (parent == kNone) parent = AddRoot(path.root);
  for (size_t i = 0; i < extents.size(); ++i) {
    const std::span<const int32_t> tokens = path.Page(i);
    const uint64_t hash = HashOf(parent, kinds[i], tokens);
    NodeId node = At(hash);
    if (node == kNone) {
      CHECK(!Holds(extents[i]), "extent={} stands for another page",
            extents[i].value());
      node = AddPage(hash, parent, kinds[i], tokens);
      nodes_[node].extent = extents[i];
      node_of_extent_[extents[i].value()] = node;
      taken.push_back(extents[i]);
    } else if (!IsPage(node, parent, kinds[i], tokens)) {
      break;
    } else if (nodes_[node].extent != extents[i] && !passes) {
      break;
    }
    Touch(node);
    parent = node;
  }
  // All of a new root's pages may have met others of their hashes.
  const NodeId root = RootOf(path.root);
  if (nodes_[root].num_children == 0) RemoveNode(root);
  return taken;
}

void PrefixIndex::Pin(std::span<const ExtentId> extents) {
  ++clock_;
  for (const ExtentId extent : extents) {
    const NodeId node = NodeOf(extent);
    if (node == kNone) continue;
    Leave(node);
    if (nodes_[node].num_users++ == 0) {
      --num_idle_;
    } else {
      ++num_repeated_;
    }
    nodes_[node].last_use = clock_;
    Join(node);
  }
}

void PrefixIndex::Unpin(std::span<const ExtentId> extents) {
  ++clock_;
  for (const ExtentId extent : extents) {
    const NodeId node = NodeOf(extent);
    if (node == kNone) continue;
    CHECK(nodes_[node].num_users > 0, "extent={} is idle", extent.value());
    if (--nodes_[node].num_users == 0) {
      ++num_idle_;
    } else {
      --num_repeated_;
    }
    nodes_[node].last_use = clock_;
    Join(node);
  }
}

std::optional<ExtentId> PrefixIndex::Evict() {
  if (evictable_.empty()) return std::nullopt;
  const NodeId node = evictable_.begin()->second;
  const ExtentId extent = nodes_[node].extent;
  const NodeId parent = nodes_[node].parent;
  Leave(node);
  node_of_extent_[extent.value()] = kNone;
  pages_.erase(nodes_[node].hash);
  --num_pages_;
  --num_idle_;
  RemoveNode(node);
  --nodes_[parent].num_children;
  if (nodes_[parent].parent != kNone) {
    Join(parent);
  } else if (nodes_[parent].num_children == 0) {
    RemoveNode(parent);
  }
  return extent;
}

int64_t PrefixIndex::NumUsed(std::span<const ExtentId> extents) const {
  return std::count_if(extents.begin(), extents.end(), [this](ExtentId extent) {
    const NodeId node = NodeOf(extent);
    return node != kNone && nodes_[node].num_users > 0;
  });
}

PrefixIndex::NodeId PrefixIndex::AddNode() {
  if (unused_nodes_.empty()) {
    nodes_.emplace_back();
    return static_cast<NodeId>(nodes_.size() - 1);
  }
  const NodeId node = unused_nodes_.back();
  unused_nodes_.pop_back();
  nodes_[node] = Node();
  return node;
}

PrefixIndex::NodeId PrefixIndex::AddRoot(std::string_view key) {
  const NodeId root = AddNode();
  const auto added = roots_.emplace(std::string(key), root).first;
  root_keys_.emplace(root, added->first);
  for (const char byte : key) {
    nodes_[root].hash =
        Mix(nodes_[root].hash, static_cast<unsigned char>(byte));
  }
  return root;
}

PrefixIndex::NodeId PrefixIndex::AddPage(uint64_t hash, NodeId parent,
                                         PageKind kind,
                                         std::span<const int32_t> tokens) {
  const NodeId node = AddNode();
  Leave(parent);
  ++nodes_[parent].num_children;
  Node& page = nodes_[node];
  page.hash = hash;
  page.parent = parent;
  page.num_users = 1;
  page.kind = kind;
  std::copy(tokens.begin(), tokens.end(), page.tokens.begin());
  pages_.emplace(hash, node);
  ++num_pages_;
  return node;
}

void PrefixIndex::RemoveNode(NodeId node) {
  const auto key = root_keys_.find(node);
  if (key != root_keys_.end()) {
    roots_.erase(roots_.find(key->second));
    root_keys_.erase(key);
  }
  unused_nodes_.push_back(node);
}

void PrefixIndex::Leave(NodeId node) {
  evictable_.erase({nodes_[node].last_use, node});
}

void PrefixIndex::Join(NodeId node) {
  const Node& page = nodes_[node];
  if (page.num_users > 0 || page.num_children > 0) return;
  evictable_.emplace(page.last_use, node);
}

void PrefixIndex::Touch(NodeId node) {
  Leave(node);
  nodes_[node].last_use = clock_;
  Join(node);
}

PrefixSnapshot PrefixIndex::Snapshot() const {
  PrefixSnapshot snapshot = {.num_extents = node_of_extent_.size(),
                             .num_pages = num_pages_,
                             .num_idle = num_idle_,
                             .num_repeated = num_repeated_};
  for (const auto& [key, root] : roots_) {
    snapshot.roots.push_back({root, nodes_[root].num_children});
  }
  for (size_t extent = 0; extent < node_of_extent_.size(); ++extent) {
    const NodeId node = node_of_extent_[extent];
    if (node == kNone) continue;
    const Node& page = nodes_[node];
    snapshot.pages.push_back(
        {.id = node,
         .parent = page.parent,
         .extent = page.extent,
         .num_children = page.num_children,
         .num_users = page.num_users,
         .last_use = page.last_use,
         .is_found = Child(page.parent, page.kind, page.tokens) == node});
  }
  for (const auto& [last_use, node] : evictable_) {
    snapshot.evictable.push_back(node);
  }
  return snapshot;
}

}  // namespace winnow
