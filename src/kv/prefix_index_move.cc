// What the index hears of pages whose sequences keep them on the host.
#include "base/check.h"
#include "kv/prefix_index.h"

namespace winnow {

std::vector<KvBlockId> PrefixIndex::EnterHost(
    const PrefixPath& path, std::span<const PageKind> kinds,
    std::span<const KvBlockId> host_kv_blocks) {
  CHECK(kinds.size() == host_kv_blocks.size() &&
            kinds.size() * kPageTokens <= path.tokens.size(),
        "kinds={} KV blocks={} tokens={}", kinds.size(), host_kv_blocks.size(),
        path.tokens.size());
  ++clock_;
  std::vector<KvBlockId> taken;
  NodeId parent = RootOf(path.root);
  if (parent == kNone) parent = AddRoot(path.root);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::span<const int32_t> tokens = path.Page(i);
    const uint64_t hash = HashOf(parent, kinds[i], tokens);
    NodeId node = At(hash);
    if (node == kNone) {
      const KvBlockId host = host_kv_blocks[i];
      if (host == kNoKvBlock || NodeOfHost(host) != kNone) break;
      node = AddPage(hash, parent, kinds[i], tokens);
      PutOnHost(node, host);
      taken.push_back(host);
    } else if (!IsPage(node, parent, kinds[i], tokens)) {
      break;
    }
    Touch(node);
    parent = node;
  }
  RemoveRootWithoutPages(path.root);
  return taken;
}

std::optional<PagePlaces> PrefixIndex::FindBelow(std::optional<KvBlockId> above,
                                                 KvBlockId host) const {
  const NodeId node = NodeOfHost(host);
  if (node == kNone) return std::nullopt;
  const NodeId parent = nodes_[node].parent;
  const bool is_below =
      above ? NodeOf(*above) == parent : nodes_[parent].parent == kNone;
  return is_below ? std::optional(nodes_[node].places) : std::nullopt;
}

bool PrefixIndex::CanWithdraw(std::span<const KvBlockId> kv_blocks) const {
  for (size_t i = 0; i < kv_blocks.size(); ++i) {
    const Node& page = nodes_[NodeOf(kv_blocks[i])];
    const uint32_t num_below = i + 1 < kv_blocks.size() ? 1 : 0;
    if (page.num_children != num_below || page.num_users > 1) return false;
  }
  return true;
}

std::vector<PagePlaces> PrefixIndex::Withdraw(
    std::span<const KvBlockId> kv_blocks) {
  CHECK(CanWithdraw(kv_blocks), "KV blocks={}", kv_blocks.size());
  std::vector<PagePlaces> places;
  for (size_t i = kv_blocks.size(); i-- > 0;) {
    places.push_back(ForgetPage(NodeOf(kv_blocks[i])));
  }
  return places;
}

}  // namespace winnow
