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

void PrefixHit::Shorten(size_t num_pages) {
  if (num_pages >= kinds.size()) return;
  kinds.resize(num_pages);
  kv_blocks.resize(std::min(num_pages, kv_blocks.size()));
  host_kv_blocks.resize(num_pages - kv_blocks.size());
}

PrefixIndex::NodeId PrefixIndex::NodeOf(KvBlockId kv_block) const {
  CHECK(kv_block.value() < node_of_kv_block_.size(),
        "KV block={} num_kv_blocks={}", kv_block.value(),
        node_of_kv_block_.size());
  return node_of_kv_block_[kv_block.value()];
}

PrefixIndex::NodeId PrefixIndex::NodeOfHost(KvBlockId kv_block) const {
  CHECK(kv_block.value() < node_of_host_kv_block_.size(),
        "host KV block={} num_host_kv_blocks={}", kv_block.value(),
        node_of_host_kv_block_.size());
  return node_of_host_kv_block_[kv_block.value()];
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

std::vector<PrefixIndex::NodeId> PrefixIndex::Walk(
    const PrefixPath& path, size_t max_pages,
    std::span<const PageKind> kinds) const {
  CHECK(max_pages * kPageTokens <= path.tokens.size(), "pages={} tokens={}",
        max_pages, path.tokens.size());
  std::vector<NodeId> nodes;
  NodeId parent = RootOf(path.root);
  while (parent != kNone && nodes.size() < max_pages) {
    NodeId child = kNone;
    for (const PageKind kind : kinds) {
      child = Child(parent, kind, path.Page(nodes.size()));
      if (child != kNone) break;
    }
    if (child != kNone) nodes.push_back(child);
    parent = child;
  }
  return nodes;
}

PrefixHit PrefixIndex::Find(const PrefixPath& path, size_t max_pages,
                            std::span<const PageKind> kinds) const {
  PrefixHit hit;
  for (const NodeId node : Walk(path, max_pages, kinds)) {
    const PagePlaces& places = nodes_[node].places;
    if (places.device) {
      hit.kv_blocks.push_back(*places.device);
    } else {
      hit.host_kv_blocks.push_back(*places.host);
    }
    hit.kinds.push_back(nodes_[node].kind);
  }
  return hit;
}

std::vector<KvBlockId> PrefixIndex::Enter(const PrefixPath& path,
                                          std::span<const PageKind> kinds,
                                          std::span<const KvBlockId> kv_blocks,
                                          bool passes) {
  CHECK(kinds.size() == kv_blocks.size() &&
            kv_blocks.size() * kPageTokens <= path.tokens.size(),
        "kinds={} KV blocks={} tokens={}", kinds.size(), kv_blocks.size(),
        path.tokens.size());
  std::vector<KvBlockId> taken;
  if (kv_blocks.empty()) return taken;
  ++clock_;
  NodeId parent = RootOf(path.root);
  if (parent == kNone) parent = AddRoot(path.root);
  for (size_t i = 0; i < kv_blocks.size(); ++i) {
    const std::span<const int32_t> tokens = path.Page(i);
    const uint64_t hash = HashOf(parent, kinds[i], tokens);
    NodeId node = At(hash);
    const bool is_there = node != kNone;
    if (is_there && !IsPage(node, parent, kinds[i], tokens)) break;
    if (!is_there) node = AddPage(hash, parent, kinds[i], tokens);
    if (!nodes_[node].places.device) {
      PutOnDevice(node, kv_blocks[i]);
      AddUser(node);
      taken.push_back(kv_blocks[i]);
    } else if (*nodes_[node].places.device != kv_blocks[i] && !passes) {
      break;
    }
    Touch(node);
    parent = node;
  }
  RemoveRootWithoutPages(path.root);
  return taken;
}

// All of a new root's pages may have met others of their hashes.
void PrefixIndex::RemoveRootWithoutPages(std::string_view key) {
  const NodeId root = RootOf(key);
  if (nodes_[root].num_children == 0) RemoveNode(root);
}

void PrefixIndex::Pin(std::span<const KvBlockId> kv_blocks) {
  ++clock_;
  for (const KvBlockId kv_block : kv_blocks) {
    const NodeId node = NodeOf(kv_block);
    if (node == kNone) continue;
    if (nodes_[node].num_users == 0) --num_idle_;
    AddUser(node);
  }
}

void PrefixIndex::AddUser(NodeId node) {
  Leave(node);
  if (nodes_[node].num_users++ > 0) ++num_repeated_;
  nodes_[node].last_use = clock_;
  Join(node);
}

void PrefixIndex::Unpin(std::span<const KvBlockId> kv_blocks) {
  ++clock_;
  for (const KvBlockId kv_block : kv_blocks) {
    const NodeId node = NodeOf(kv_block);
    if (node == kNone) continue;
    CHECK(nodes_[node].num_users > 0, "KV block={} is idle", kv_block.value());
    Leave(node);
    if (--nodes_[node].num_users == 0) {
      ++num_idle_;
    } else {
      --num_repeated_;
    }
    nodes_[node].last_use = clock_;
    Join(node);
  }
}

std::optional<PagePlaces> PrefixIndex::NextToEvict() const {
  if (evictable_.empty()) return std::nullopt;
  return nodes_[evictable_.begin()->second].places;
}

std::optional<KvBlockId> PrefixIndex::Evict() {
  if (evictable_.empty()) return std::nullopt;
  const NodeId node = evictable_.begin()->second;
  const KvBlockId kv_block = *nodes_[node].places.device;
  --num_idle_;
  TakeOffDevice(node);
  if (!nodes_[node].places.host) RemovePage(node);
  return kv_block;
}

void PrefixIndex::AddHost(KvBlockId kv_block, KvBlockId host) {
  const NodeId node = NodeOf(kv_block);
  CHECK(node != kNone && !nodes_[node].places.host, "KV block={} host={}",
        kv_block.value(), host.value());
  PutOnHost(node, host);
}

std::optional<KvBlockId> PrefixIndex::EvictHost() {
  NodeId node = kNone;
  if (!duplicates_.empty()) {
    node = duplicates_.rbegin()->second;
  } else if (!host_evictable_.empty()) {
    node = host_evictable_.begin()->second;
  } else {
    return std::nullopt;
  }
  const KvBlockId host = *nodes_[node].places.host;
  TakeOffHost(node);
  if (!nodes_[node].places.device) RemovePage(node);
  return host;
}

void PrefixIndex::PinHost(std::span<const KvBlockId> host_kv_blocks) {
  ++clock_;
  for (const KvBlockId host : host_kv_blocks) {
    const NodeId node = NodeOfHost(host);
    CHECK(node != kNone && !nodes_[node].places.device &&
              nodes_[node].num_users == 0,
          "host KV block={}", host.value());
    AddUser(node);
  }
}

void PrefixIndex::Promote(KvBlockId host, KvBlockId kv_block) {
  const NodeId node = NodeOfHost(host);
  CHECK(node != kNone && nodes_[node].num_users == 1,
        "host KV block={} is not pinned", host.value());
  PutOnDevice(node, kv_block);
}

std::vector<PagePlaces> PrefixIndex::Forget(const PrefixPath& path,
                                            std::span<const PageKind> kinds) {
  std::vector<PagePlaces> places;
  std::vector<NodeId> nodes =
      Walk(path, path.tokens.size() / kPageTokens, kinds);
  for (; !nodes.empty(); nodes.pop_back()) {
    if (nodes_[nodes.back()].kind != kinds.front()) break;
    places.push_back(ForgetPage(nodes.back()));
  }
  return places;
}

PagePlaces PrefixIndex::ForgetPage(NodeId node) {
  CHECK(nodes_[node].num_children == 0 && nodes_[node].num_users <= 1,
        "children={} users={}", nodes_[node].num_children,
        nodes_[node].num_users);
  const PagePlaces places = nodes_[node].places;
  if (places.host) TakeOffHost(node);
  if (places.device) {
    if (nodes_[node].num_users == 0) --num_idle_;
    TakeOffDevice(node);
  }
  RemovePage(node);
  return places;
}

int64_t PrefixIndex::NumUsed(std::span<const KvBlockId> kv_blocks) const {
  return std::count_if(kv_blocks.begin(), kv_blocks.end(),
                       [this](KvBlockId kv_block) {
                         const NodeId node = NodeOf(kv_block);
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
  page.kind = kind;
  std::copy(tokens.begin(), tokens.end(), page.tokens.begin());
  pages_.emplace(hash, node);
  ++num_pages_;
  Join(parent);
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

// REQUIRES: it has neither children nor users but those of Forget, and lies
// nowhere any more.
void PrefixIndex::RemovePage(NodeId node) {
  const NodeId parent = nodes_[node].parent;
  CHECK(nodes_[node].num_children == 0, "children={}",
        nodes_[node].num_children);
  Leave(node);
  pages_.erase(nodes_[node].hash);
  --num_pages_;
  RemoveNode(node);
  Leave(parent);
  --nodes_[parent].num_children;
  if (nodes_[parent].parent == kNone && nodes_[parent].num_children == 0) {
    RemoveNode(parent);
  } else {
    Join(parent);
  }
}

void PrefixIndex::PutOnDevice(NodeId node, KvBlockId kv_block) {
  CHECK(!Holds(kv_block), "KV block={} stands for another page",
        kv_block.value());
  const NodeId parent = nodes_[node].parent;
  const Node& above = nodes_[parent];
  CHECK(above.parent == kNone || above.places.device, "KV block={}",
        kv_block.value());
  Leave(node);
  nodes_[node].places.device = kv_block;
  node_of_kv_block_[kv_block.value()] = node;
  Join(node);
  Leave(parent);
  ++nodes_[parent].num_device_children;
  Join(parent);
}

void PrefixIndex::TakeOffDevice(NodeId node) {
  const NodeId parent = nodes_[node].parent;
  Leave(node);
  node_of_kv_block_[nodes_[node].places.device->value()] = kNone;
  nodes_[node].places.device.reset();
  Join(node);
  Leave(parent);
  --nodes_[parent].num_device_children;
  Join(parent);
}

void PrefixIndex::PutOnHost(NodeId node, KvBlockId kv_block) {
  CHECK(NodeOfHost(kv_block) == kNone,
        "host KV block={} stands for another page", kv_block.value());
  Leave(node);
  nodes_[node].places.host = kv_block;
  node_of_host_kv_block_[kv_block.value()] = node;
  Join(node);
}

void PrefixIndex::TakeOffHost(NodeId node) {
  Leave(node);
  node_of_host_kv_block_[nodes_[node].places.host->value()] = kNone;
  nodes_[node].places.host.reset();
  Join(node);
}

void PrefixIndex::Leave(NodeId node) {
  ++order_version_;
  const std::pair<uint64_t, NodeId> key = {nodes_[node].last_use, node};
  if (nodes_[node].places.device) evictable_.erase(key);
  if (nodes_[node].places.host) {
    host_evictable_.erase(key);
    duplicates_.erase(key);
  }
}

void PrefixIndex::Join(NodeId node) {
  const Node& page = nodes_[node];
  const std::pair<uint64_t, NodeId> key = {page.last_use, node};
  if (page.places.device && page.places.host) duplicates_.insert(key);
  if (page.num_users > 0) return;
  if (page.places.device) {
    if (page.num_device_children == 0) evictable_.insert(key);
  } else if (page.places.host) {
    if (page.num_children == 0) host_evictable_.insert(key);
  }
}

void PrefixIndex::Touch(NodeId node) {
  Leave(node);
  nodes_[node].last_use = clock_;
  Join(node);
}

PrefixSnapshot PrefixIndex::Snapshot() const {
  PrefixSnapshot snapshot = {
      .num_kv_blocks = node_of_kv_block_.size(),
      .num_host_kv_blocks = node_of_host_kv_block_.size(),
      .num_pages = num_pages_,
      .num_idle = num_idle_,
      .num_repeated = num_repeated_};
  for (const auto& [key, root] : roots_) {
    snapshot.roots.push_back({root, nodes_[root].num_children});
  }
  const auto add = [&](NodeId node) {
    const Node& page = nodes_[node];
    snapshot.pages.push_back(
        {.id = node,
         .parent = page.parent,
         .kv_block = page.places.device,
         .num_children = page.num_children,
         .num_users = page.num_users,
         .last_use = page.last_use,
         .is_found = Child(page.parent, page.kind, page.tokens) == node,
         .host_kv_block = page.places.host});
  };
  for (const NodeId node : node_of_kv_block_) {
    if (node != kNone) add(node);
  }
  for (const NodeId node : node_of_host_kv_block_) {
    if (node != kNone && !nodes_[node].places.device) add(node);
  }
  const auto ids = [](const ByLastUse& order) {
    std::vector<uint32_t> nodes;
    for (const auto& [last_use, node] : order) nodes.push_back(node);
    return nodes;
  };
  snapshot.evictable = ids(evictable_);
  snapshot.host_evictable = ids(host_evictable_);
  snapshot.duplicates = ids(duplicates_);
  return snapshot;
}

}  // namespace winnow
