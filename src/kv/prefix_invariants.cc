#include "kv/prefix_invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace winnow {
namespace {

using Messages = std::vector<std::string>;
using PagesById = std::map<uint32_t, const PrefixPageSnapshot*>;

void CheckCount(std::string_view what, int64_t counted, int64_t found,
                Messages& broken) {
  if (counted == found) return;
  broken.push_back(
      fmt::format("the index counts {} {}, has {}", counted, what, found));
}

void CheckCounts(const PrefixSnapshot& snapshot, Messages& broken) {
  int64_t num_idle = 0, num_repeated = 0;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    num_idle += page.num_users == 0;
    num_repeated += page.num_users > 1 ? page.num_users - 1 : 0;
  }
  CheckCount("pages", snapshot.num_pages, std::ssize(snapshot.pages), broken);
  CheckCount("idle pages", snapshot.num_idle, num_idle, broken);
  CheckCount("repeated users", snapshot.num_repeated, num_repeated, broken);
}

void CheckPage(const PrefixPageSnapshot& page, const PrefixSnapshot& snapshot,
               const PagesById& pages, Messages& broken) {
  const uint32_t extent = page.extent.value();
  if (extent >= snapshot.num_extents) {
    broken.push_back(
        fmt::format("extent {} of {} is a page", extent, snapshot.num_extents));
  }
  if (!page.is_found) {
    broken.push_back(fmt::format("the page of extent {} is not found", extent));
  }
  const auto parent = pages.find(page.parent);
  if (parent == pages.end()) {
    const bool is_root = std::any_of(
        snapshot.roots.begin(), snapshot.roots.end(),
        [&](const RootSnapshot& root) { return root.id == page.parent; });
    if (!is_root) {
      broken.push_back(
          fmt::format("the page of extent {} has no parent", extent));
    }
    return;
  }
  if (page.num_users > 0 && parent->second->num_users == 0) {
    broken.push_back(
        fmt::format("the page of extent {} is in use, above it {} is idle",
                    extent, parent->second->extent.value()));
  }
}

void CheckChildren(const PrefixSnapshot& snapshot, Messages& broken) {
  std::map<uint32_t, uint32_t> num_children;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    ++num_children[page.parent];
  }
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    if (page.num_children == num_children[page.id]) continue;
    broken.push_back(fmt::format(
        "the page of extent {} counts {} children, "
        "has {}",
        page.extent.value(), page.num_children, num_children[page.id]));
  }
  for (const RootSnapshot& root : snapshot.roots) {
    if (root.num_children == num_children[root.id] && root.num_children > 0) {
      continue;
    }
    broken.push_back(fmt::format("root {} counts {} children, has {}", root.id,
                                 root.num_children, num_children[root.id]));
  }
}

void CheckEvictable(const PrefixSnapshot& snapshot, Messages& broken) {
  std::vector<const PrefixPageSnapshot*> leaves;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    if (page.num_users == 0 && page.num_children == 0) leaves.push_back(&page);
  }
  std::sort(leaves.begin(), leaves.end(), [](const auto* a, const auto* b) {
    return a->last_use < b->last_use;
  });
  std::vector<uint32_t> ids;
  for (const PrefixPageSnapshot* leaf : leaves) ids.push_back(leaf->id);
  if (ids == snapshot.evictable) return;
  broken.push_back(fmt::format(
      "{} pages may be evicted in their order, {} are idle without children",
      snapshot.evictable.size(), ids.size()));
}

}  // namespace

std::vector<std::string> BrokenInvariants(const PrefixSnapshot& snapshot) {
  Messages broken;
  PagesById pages;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    pages[page.id] = &page;
  }
  CheckCounts(snapshot, broken);
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    CheckPage(page, snapshot, pages, broken);
  }
  CheckChildren(snapshot, broken);
  CheckEvictable(snapshot, broken);
  return broken;
}

}  // namespace winnow
