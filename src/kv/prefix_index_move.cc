// What the index hears of pages whose sequences keep them on the host.
#include "base/check.h"
#include "kv/prefix_index.h"

namespace winnow {

std::vector<ExtentId> PrefixIndex::EnterHost(
    const PrefixPath& path, std::span<const PageKind> kinds,
    std::span<const ExtentId> host_extents) {
  CHECK(kinds.size() == host_extents.size() &&
            kinds.size() * kPageTokens <= path.tokens.size(),
        "kinds={} extents={} tokens={}", kinds.size(), host_extents.size(),
        path.tokens.size());
  ++clock_;
  std::vector<ExtentId> taken;
  NodeId parent = RootOf(path.root);
  if (parent == kNone) parent = AddRoot(path.root);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::span<const int32_t> tokens = path.Page(i);
    const uint64_t hash = HashOf(parent, kinds[i], tokens);
    NodeId node = At(hash);
    if (node == kNone) {
      const ExtentId host = host_extents[i];
      if (host == kNoExtent || NodeOfHost(host) != kNone) break;
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

std::optional<PagePlaces> PrefixIndex::FindBelow(std::optional<ExtentId> above,
                                                 ExtentId host) const {
  const NodeId node = NodeOfHost(host);
  if (node == kNone) return std::nullopt;
  const NodeId parent = nodes_[node].parent;
  const bool is_below =
      above ? NodeOf(*above) == parent : nodes_[parent].parent == kNone;
  return is_below ? std::optional(nodes_[node].places) : std::nullopt;
}

bool PrefixIndex::CanWithdraw(std::span<const ExtentId> extents) const {
  for (size_t i = 0; i < extents.size(); ++i) {
    const Node& page = nodes_[NodeOf(extents[i])];
    const uint32_t num_below = i + 1 < extents.size() ? 1 : 0;
    if (page.num_children != num_below || page.num_users > 1) return false;
  }
  return true;
}

std::vector<PagePlaces> PrefixIndex::Withdraw(
    std::span<const ExtentId> extents) {
  CHECK(CanWithdraw(extents), "extents={}", extents.size());
  std::vector<PagePlaces> places;
  for (size_t i = extents.size(); i-- > 0;) {
    places.push_back(ForgetPage(NodeOf(extents[i])));
  }
  return places;
}

}  // namespace winnow
