// Invariants of a PrefixIndex, as checks on plain data.
#ifndef WINNOW_KV_PREFIX_INVARIANTS_H_
#define WINNOW_KV_PREFIX_INVARIANTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace winnow {

// How the rows of a page were computed, if its KV depends on it. Equal tokens
// of different kinds are different pages.
using PageKind = uint32_t;

struct RootSnapshot {
  uint32_t id = 0;
  uint32_t num_children = 0;
};

struct PrefixPageSnapshot {
  uint32_t id = 0;
  uint32_t parent = 0;
  std::optional<KvBlockId> kv_block;
  uint32_t num_children = 0;
  uint32_t num_users = 0;
  uint64_t last_use = 0;
  bool is_found = false;  // by its parent, kind and tokens
  std::optional<KvBlockId> host_kv_block = {};
};

// The state of a PrefixIndex at one moment.
struct PrefixSnapshot {
  size_t num_kv_blocks = 0;
  size_t num_host_kv_blocks = 0;
  int64_t num_pages = 0;     // as the index counts
  int64_t num_idle = 0;      // as the index counts
  int64_t num_repeated = 0;  // as the index counts
  std::vector<RootSnapshot> roots = {};
  // By KV block, ascending; then pages on the host alone.
  std::vector<PrefixPageSnapshot> pages = {};
  // Least recently used first.
  std::vector<uint32_t> evictable = {};
  std::vector<uint32_t> host_evictable = {};
  std::vector<uint32_t> duplicates = {};
};

// Returns one line for each broken invariant; empty if all hold:
// - The counts of pages, idle pages and repeated users are right.
// - A page is found and its parent exists. It lies in at least one KV block;
//   each exists and holds no other page.
// - Pages and roots have the number of children that name them, a root at least
//   one.
// - A used page has no idle parent. A used page lies on the device, and so does
//   the parent of every device page.
// - `evictable` are the idle device pages without children there;
//   `host_evictable` the idle pages on the host alone without children;
//   `duplicates` the pages on both tiers. Each is in order of last use.
std::vector<std::string> BrokenInvariants(const PrefixSnapshot& snapshot);

}  // namespace winnow

#endif  // WINNOW_KV_PREFIX_INVARIANTS_H_
