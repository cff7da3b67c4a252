// What always holds of a PrefixIndex, as checks on plain data.
#ifndef WINNOW_KV_PREFIX_INVARIANTS_H_
#define WINNOW_KV_PREFIX_INVARIANTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace winnow {

// How the rows of a page were computed, where its KV depends on it. Equal
// tokens of other kinds are other pages.
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
  // By KV block, ascending, and behind them those on the host alone.
  std::vector<PrefixPageSnapshot> pages = {};
  // Least recently used first.
  std::vector<uint32_t> evictable = {};
  std::vector<uint32_t> host_evictable = {};
  std::vector<uint32_t> duplicates = {};
};

// Names whatever is broken, a line each; empty where all holds:
//  * pages, idle pages and repeated users are as many as the index counts;
//  * a page is found, lies in KV blocks that exist and hold no other, in one at
//    least, and its parent is there;
//  * pages and roots have as many children as name them, a root at least one;
//  * a page in use has no idle parent, and lies on the device, as does the
//    parent of every page there;
//  * evictable are the idle pages on the device without children there, those
//    on the host alone without any, and the duplicates, in order of last use.
std::vector<std::string> BrokenInvariants(const PrefixSnapshot& snapshot);

}  // namespace winnow

#endif  // WINNOW_KV_PREFIX_INVARIANTS_H_
