#include "kv/prefix_invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace winnow {
namespace {

using Messages = std::vector<std::string>;
using PagesById = std::map<uint32_t, const PrefixPageSnapshot*>;

// "the page of KV block 3", or of a host KV block where it has no other.
std::string NameOf(const PrefixPageSnapshot& page) {
  if (page.kv_block)
    return fmt::format("the page of KV block {}", page.kv_block->value());
  if (page.host_kv_block) {
    return fmt::format("the page of host KV block {}",
                       page.host_kv_block->value());
  }
  return "the page of no KV block";
}

void CheckCount(std::string_view what, int64_t counted, int64_t found,
                Messages& broken) {
  if (counted == found) return;
  broken.push_back(
      fmt::format("the index counts {} {}, has {}", counted, what, found));
}

void CheckCounts(const PrefixSnapshot& snapshot, Messages& broken) {
  int64_t num_idle = 0, num_repeated = 0;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    num_idle += page.kv_block.has_value() && page.num_users == 0;
    num_repeated += page.num_users > 1 ? page.num_users - 1 : 0;
  }
  CheckCount("pages", snapshot.num_pages, std::ssize(snapshot.pages), broken);
  CheckCount("idle pages", snapshot.num_idle, num_idle, broken);
  CheckCount("repeated users", snapshot.num_repeated, num_repeated, broken);
}

// `num_kv_blocks`: of the tier.
void CheckKvBlocks(std::string_view tier, std::vector<uint32_t> kv_blocks,
                   size_t num_kv_blocks, Messages& broken) {
  std::sort(kv_blocks.begin(), kv_blocks.end());
  const auto twice = std::adjacent_find(kv_blocks.begin(), kv_blocks.end());
  if (twice != kv_blocks.end()) {
    broken.push_back(fmt::format("{} {} is two pages", tier, *twice));
  }
  if (!kv_blocks.empty() && kv_blocks.back() >= num_kv_blocks) {
    broken.push_back(fmt::format("{} {} of {} is a page", tier,
                                 kv_blocks.back(), num_kv_blocks));
  }
}

void CheckPlaces(const PrefixSnapshot& snapshot, Messages& broken) {
  std::vector<uint32_t> device, host;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    if (page.kv_block) device.push_back(page.kv_block->value());
    if (page.host_kv_block) host.push_back(page.host_kv_block->value());
    if (!page.kv_block && !page.host_kv_block) {
      broken.push_back(fmt::format("page {} lies nowhere", page.id));
    }
    if (page.num_users > 0 && !page.kv_block) {
      broken.push_back(
          fmt::format("{} is in use, but not on the device", NameOf(page)));
    }
  }
  CheckKvBlocks("KV block", device, snapshot.num_kv_blocks, broken);
  CheckKvBlocks("host KV block", host, snapshot.num_host_kv_blocks, broken);
}

void CheckParent(const PrefixPageSnapshot& page, const PrefixSnapshot& snapshot,
                 const PagesById& pages, Messages& broken) {
  if (!page.is_found) {
    broken.push_back(fmt::format("{} is not found", NameOf(page)));
  }
  const auto parent = pages.find(page.parent);
  if (parent == pages.end()) {
    const bool is_root = std::any_of(
        snapshot.roots.begin(), snapshot.roots.end(),
        [&](const RootSnapshot& root) { return root.id == page.parent; });
    if (!is_root) broken.push_back(NameOf(page) + " has no parent");
    return;
  }
  if (page.num_users > 0 && parent->second->num_users == 0) {
    broken.push_back(fmt::format("{} is in use, above it {} is idle",
                                 NameOf(page), NameOf(*parent->second)));
  }
  if (page.kv_block && !parent->second->kv_block) {
    broken.push_back(fmt::format("{} is on the device, above it {} is not",
                                 NameOf(page), NameOf(*parent->second)));
  }
}

void CheckChildren(const PrefixSnapshot& snapshot, Messages& broken) {
  std::map<uint32_t, uint32_t> num_children;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    ++num_children[page.parent];
  }
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    if (page.num_children == num_children[page.id]) continue;
    broken.push_back(fmt::format("{} counts {} children, has {}", NameOf(page),
                                 page.num_children, num_children[page.id]));
  }
  for (const RootSnapshot& root : snapshot.roots) {
    if (root.num_children == num_children[root.id] && root.num_children > 0) {
      continue;
    }
    broken.push_back(fmt::format("root {} counts {} children, has {}", root.id,
                                 root.num_children, num_children[root.id]));
  }
}

// `which` are those of `pages` that belong into `order`.
void CheckOrder(std::string_view what, const std::vector<uint32_t>& order,
                std::vector<const PrefixPageSnapshot*> which,
                Messages& broken) {
  std::sort(which.begin(), which.end(), [](const auto* a, const auto* b) {
    return std::pair(a->last_use, a->id) < std::pair(b->last_use, b->id);
  });
  std::vector<uint32_t> ids;
  for (const PrefixPageSnapshot* page : which) ids.push_back(page->id);
  if (ids == order) return;
  broken.push_back(fmt::format("{} pages may be evicted in their order, {} {}",
                               order.size(), ids.size(), what));
}

void CheckEvictable(const PrefixSnapshot& snapshot, Messages& broken) {
  std::map<uint32_t, uint32_t> num_device_children;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    if (page.kv_block) ++num_device_children[page.parent];
  }
  std::vector<const PrefixPageSnapshot*> leaves, host_leaves, duplicates;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    if (page.kv_block && page.host_kv_block) duplicates.push_back(&page);
    if (page.num_users > 0) continue;
    if (page.kv_block && num_device_children[page.id] == 0) {
      leaves.push_back(&page);
    }
    if (!page.kv_block && page.num_children == 0) host_leaves.push_back(&page);
  }
  CheckOrder("are idle without children", snapshot.evictable, leaves, broken);
  CheckOrder("are on the host alone without children", snapshot.host_evictable,
             host_leaves, broken);
  CheckOrder("are duplicates", snapshot.duplicates, duplicates, broken);
}

}  // namespace

std::vector<std::string> BrokenInvariants(const PrefixSnapshot& snapshot) {
  Messages broken;
  PagesById pages;
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    pages[page.id] = &page;
  }
  CheckCounts(snapshot, broken);
  CheckPlaces(snapshot, broken);
  for (const PrefixPageSnapshot& page : snapshot.pages) {
    CheckParent(page, snapshot, pages, broken);
  }
  CheckChildren(snapshot, broken);
  CheckEvictable(snapshot, broken);
  return broken;
}

}  // namespace winnow
