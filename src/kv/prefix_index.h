// Which KV blocks hold the KV of which beginnings of texts: found by tokens.
#ifndef WINNOW_KV_PREFIX_INDEX_H_
#define WINNOW_KV_PREFIX_INDEX_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "kv/kv_block_pool.h"
#include "kv/prefix_invariants.h"

namespace winnow {

// The beginning of a text, page by page. All that KV depends on besides its
// tokens is in `root`; what differs from page to page, in their kinds. Both
// are the caller's words: what is equal is shared, whatever it means.
struct PrefixPath {
  std::string_view root;
  // Only whole pages count; there are at least as many as the pages asked for.
  std::span<const int32_t> tokens;

  std::span<const int32_t> Page(size_t page) const {
    return tokens.subspan(page * kPageTokens, kPageTokens);
  }
};

// What is there of a path: its first pages, some on the device and behind them
// some that lie on the host alone.
struct PrefixHit {
  std::vector<KvBlockId> kv_blocks;            // [pages on the device]
  std::vector<KvBlockId> host_kv_blocks = {};  // [pages on the host alone]
  std::vector<PageKind> kinds;                 // [pages]

  // The same, of its first pages alone.
  void Shorten(size_t num_pages);
};

// Where a page lies: in one of the two at least.
struct PagePlaces {
  std::optional<KvBlockId> device = {};
  std::optional<KvBlockId> host = {};
};

// A tree of pages under roots, each found by a hash of its parent, its kind and
// its tokens, and only where all three are equal: two pages of one hash are a
// miss for the one that came later, never a wrong answer. Decides, and touches
// neither byte nor pool: whoever owns the KV blocks adds a reference for each
// that is taken, and drops it when the KV block is given back. Used by the
// engine's thread alone; the same calls give the same answers.
//
// A page lies on the device, on the host, or on both: then its host copy is a
// duplicate. It has as many users as sequences hold its KV block; without any
// it is idle, and may leave the device. Pages are used from a root on, so those
// above one in use are in use too, and those above one on the device lie there
// too: every idle page can be had, those with none of the device below them
// first, and the least recently used of these before others. On the host
// duplicates go first (that of the page which was used last, as it will need
// it last), then what lies there alone, leaf by leaf, least recently used
// first. At most a page a KV block is kept, and what BrokenInvariants lists
// holds after every call, but for Enter by a sequence that ends with it, and
// PinHost until Promote.
class PrefixIndex {
 public:
  // `hash_mask` is for tests that want pages of one hash.
  explicit PrefixIndex(int64_t num_kv_blocks, uint64_t hash_mask = ~uint64_t{0},
                       int64_t num_host_kv_blocks = 0)
      : hash_mask_(hash_mask),
        node_of_kv_block_(static_cast<size_t>(num_kv_blocks), kNone),
        node_of_host_kv_block_(static_cast<size_t>(num_host_kv_blocks), kNone) {
  }

  // The longest beginning of the path that is there, at most `max_pages`. A
  // page is of the first of `kinds` that is there in its place.
  PrefixHit Find(const PrefixPath& path, size_t max_pages,
                 std::span<const PageKind> kinds) const;

  // Pages of `path`, of `kinds`, lie in `kv_blocks`, held by one sequence.
  // Those that are new, or lay on the host alone, are pages on the device from
  // here on with that one user, and are returned. Ends at a page that lies in
  // another's KV block of the device already: a page
  // below it would be used without it. A sequence that ends with this call
  // `passes` such pages. REQUIRES: as many kinds as KV blocks; a KV block that
  // is here stands for that page.
  std::vector<KvBlockId> Enter(const PrefixPath& path,
                               std::span<const PageKind> kinds,
                               std::span<const KvBlockId> kv_blocks,
                               bool passes);

  // Pages of `path`, of `kinds`, lie in these KV blocks of the host, held by a
  // sequence, which is none of their users; kNoKvBlock: it does not hold that
  // one there. Those that are new lie on the host alone from here on, and are
  // returned. Ends at a page that is neither there nor in a KV block, or whose
  // KV block stands for another page. REQUIRES: as many kinds as KV blocks.
  std::vector<KvBlockId> EnterHost(const PrefixPath& path,
                                   std::span<const PageKind> kinds,
                                   std::span<const KvBlockId> host_kv_blocks);

  // One more, or one less, sequence holds these KV blocks: those that are no
  // pages of the index are left out. All that are, are now the last used.
  // REQUIRES: Unpin takes back what Pin or Enter gave.
  void Pin(std::span<const KvBlockId> kv_blocks);
  void Unpin(std::span<const KvBlockId> kv_blocks);

  // Where the page lies that leaves the device next; nothing where none on it
  // is idle.
  std::optional<PagePlaces> NextToEvict() const;
  // The same of `num_pages`, one after the other; fewer where fewer are idle.
  std::vector<PagePlaces> NextToEvict(int64_t num_pages) const;
  // Another number where that may have become another answer.
  uint64_t order_version() const { return order_version_; }
  // That page leaves the device, and is forgotten unless it lies on the host
  // too. Its KV block; nothing where there is none. REQUIRES: it lies on the
  // host, or no page is below it.
  std::optional<KvBlockId> Evict();

  // The page in `kv_block` lies in `host` too. REQUIRES: it lay on the device
  // alone, and no page in `host`.
  void AddHost(KvBlockId kv_block, KvBlockId host);
  // Gives up a host KV block, and forgets the page that lies nowhere else;
  // nothing where each holds the only copy of a page that is pinned or above
  // others.
  std::optional<KvBlockId> EvictHost();
  // One more user of pages that lie on the host alone, and will be promoted.
  void PinHost(std::span<const KvBlockId> host_kv_blocks);
  // The page in `host`, pinned, lies in `kv_block` of the device too.
  // REQUIRES: so does the page above it; no page lies in `kv_block`.
  void Promote(KvBlockId host, KvBlockId kv_block);

  // Where the page in `host` lies, if it is one of the index, and the one right
  // below that in `above`, or without one the first of a text.
  std::optional<PagePlaces> FindBelow(std::optional<KvBlockId> above,
                                      KvBlockId host) const;

  // Forgets the path's pages of the first of `kinds`, deepest first, whoever
  // uses them, and says where they lay. Walks as Find does. REQUIRES: they are
  // the path's end, no others are below them, and none has more than one user.
  std::vector<PagePlaces> Forget(const PrefixPath& path,
                                 std::span<const PageKind> kinds);

  // Whether Withdraw may have the pages in `kv_blocks`, each below the one
  // before: nothing else is below them, and none has more than one user.
  bool CanWithdraw(std::span<const KvBlockId> kv_blocks) const;
  // Forgets them, deepest first, and says where they lay. REQUIRES:
  // CanWithdraw.
  std::vector<PagePlaces> Withdraw(std::span<const KvBlockId> kv_blocks);

  bool Holds(KvBlockId kv_block) const { return NodeOf(kv_block) != kNone; }
  // Where a duplicate lies of what is in `kv_block`.
  std::optional<KvBlockId> HostOf(KvBlockId kv_block) const {
    return Holds(kv_block) ? nodes_[NodeOf(kv_block)].places.host
                           : std::nullopt;
  }
  bool HasPagesBelow(KvBlockId kv_block) const {
    return Holds(kv_block) && nodes_[NodeOf(kv_block)].num_children > 0;
  }
  // How many of these have a user.
  int64_t NumUsed(std::span<const KvBlockId> kv_blocks) const;
  int64_t num_pages() const { return num_pages_; }
  // On the device.
  int64_t num_idle() const { return num_idle_; }
  // Users beyond the first, over all pages.
  int64_t num_repeated() const { return num_repeated_; }
  PrefixSnapshot Snapshot() const;

 private:
  using NodeId = uint32_t;
  static constexpr NodeId kNone = 0xffffffff;

  // A page, or a root: that has children alone.
  struct Node {
    uint64_t hash = 0;
    uint64_t last_use = 0;
    NodeId parent = kNone;  // of a root: none
    uint32_t num_children = 0;
    uint32_t num_device_children = 0;
    uint32_t num_users = 0;
    PageKind kind = 0;
    PagePlaces places;  // of a root: none
    std::array<int32_t, kPageTokens> tokens = {};
  };

  NodeId NodeOf(KvBlockId kv_block) const;
  NodeId NodeOfHost(KvBlockId kv_block) const;
  NodeId RootOf(std::string_view key) const;
  NodeId AddRoot(std::string_view key);
  uint64_t HashOf(NodeId parent, PageKind kind,
                  std::span<const int32_t> tokens) const;
  // The node of that hash, whether or not it is the page.
  NodeId At(uint64_t hash) const;
  bool IsPage(NodeId node, NodeId parent, PageKind kind,
              std::span<const int32_t> tokens) const;
  NodeId Child(NodeId parent, PageKind kind,
               std::span<const int32_t> tokens) const;
  // The nodes of the path's longest beginning that is there.
  std::vector<NodeId> Walk(const PrefixPath& path, size_t max_pages,
                           std::span<const PageKind> kinds) const;
  NodeId AddPage(uint64_t hash, NodeId parent, PageKind kind,
                 std::span<const int32_t> tokens);
  NodeId AddNode();
  void RemoveNode(NodeId node);
  void RemoveRootWithoutPages(std::string_view key);
  void RemovePage(NodeId node);
  PagePlaces ForgetPage(NodeId node);
  void PutOnDevice(NodeId node, KvBlockId kv_block);
  void TakeOffDevice(NodeId node);
  void PutOnHost(NodeId node, KvBlockId kv_block);
  void TakeOffHost(NodeId node);
  void AddUser(NodeId node);
  // Before and after a change of what the orders below are made of.
  void Leave(NodeId node);
  void Join(NodeId node);
  void Touch(NodeId node);

  const uint64_t hash_mask_;
  std::vector<NodeId> node_of_kv_block_;       // [num_kv_blocks]
  std::vector<NodeId> node_of_host_kv_block_;  // [num_host_kv_blocks]
  std::vector<Node> nodes_;
  std::vector<NodeId> unused_nodes_;
  std::unordered_map<uint64_t, NodeId> pages_;  // by hash
  std::map<std::string, NodeId, std::less<>> roots_;
  std::map<NodeId, std::string_view> root_keys_;  // of roots_
  // By last use. In the first two no two are of one: a call touches one path.
  using ByLastUse = std::set<std::pair<uint64_t, NodeId>>;
  ByLastUse evictable_;       // idle on the device, none of it below them
  ByLastUse host_evictable_;  // idle on the host alone, none below them
  ByLastUse duplicates_;      // on both
  uint64_t clock_ = 0;
  uint64_t order_version_ = 0;
  int64_t num_pages_ = 0;
  int64_t num_idle_ = 0;
  int64_t num_repeated_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_KV_PREFIX_INDEX_H_
