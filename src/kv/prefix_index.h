// PrefixIndex: finds the KV blocks that hold the KV of a text's first pages.
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

// The beginning of a text, page by page. `root` names everything beside the
// tokens on which KV depends; page kinds name the differences between pages.
// The index compares both for equality and does not interpret them.
struct PrefixPath {
  std::string_view root;
  // Only full pages count. REQUIRES: at least as many as the pages asked for.
  std::span<const int32_t> tokens;

  std::span<const int32_t> Page(size_t page) const {
    return tokens.subspan(page * kPageTokens, kPageTokens);
  }
};

// The pages found for a path: first those on the device, then those on the host
// alone.
struct PrefixHit {
  std::vector<KvBlockId> kv_blocks;            // [pages on the device]
  std::vector<KvBlockId> host_kv_blocks = {};  // [pages on the host alone]
  std::vector<PageKind> kinds;                 // [pages]

  // Keeps the first `num_pages` pages.
  void Shorten(size_t num_pages);
};

// Where a page lies: on at least one of the two tiers.
struct PagePlaces {
  std::optional<KvBlockId> device = {};
  std::optional<KvBlockId> host = {};
};

// A tree of pages under roots. A hash of parent, kind and tokens finds a page;
// all three are then compared. Of two pages with one hash the later one is a
// miss, never a wrong answer. The index touches neither bytes nor pools. Its
// owner adds a reference for each KV block that the index takes, and drops it
// for each that the index returns. Used by the engine's thread alone. The same
// calls give the same answers.
//
// A page lies on the device, on the host, or on both; then its host copy is a
// duplicate. Its users are the sequences that hold its KV block. A page without
// users is idle and may leave the device. Every page above a used page is used,
// and every page above a device page lies on the device. Hence every idle page
// can leave in time. Pages without device pages below go first, in order of
// last use.
//
// On the host duplicates go first. Of these the most recently used goes first,
// because its device copy stays longest. Then pages on the host alone go, from
// the leaves, in order of last use. A KV block holds at most one page. The
// invariants of BrokenInvariants hold after every call. The exceptions are
// Enter by a sequence that ends with it, and the time from PinHost to Promote.
class PrefixIndex {
 public:
  // `hash_mask` lets tests force equal hashes.
  explicit PrefixIndex(int64_t num_kv_blocks, uint64_t hash_mask = ~uint64_t{0},
                       int64_t num_host_kv_blocks = 0)
      : hash_mask_(hash_mask),
        node_of_kv_block_(static_cast<size_t>(num_kv_blocks), kNone),
        node_of_host_kv_block_(static_cast<size_t>(num_host_kv_blocks), kNone) {
  }

  // The longest known beginning of the path, at most `max_pages`. Each page has
  // the first of `kinds` that is known at its place.
  PrefixHit Find(const PrefixPath& path, size_t max_pages,
                 std::span<const PageKind> kinds) const;

  // Enters pages of `path` in `kv_blocks`, which one sequence holds. New pages,
  // and pages that lay on the host alone, now lie on the device with that one
  // user. Their KV blocks are returned. Stops at a page that already lies in
  // another KV block of the device. A page below it would have a user that it
  // lacks. With `passes`, for a sequence that ends with this call, continues
  // below such pages. REQUIRES: one kind for each KV block; a KV block that is
  // known stands for that page.
  std::vector<KvBlockId> Enter(const PrefixPath& path,
                               std::span<const PageKind> kinds,
                               std::span<const KvBlockId> kv_blocks,
                               bool passes);

  // Enters pages of `path` in KV blocks of the host. A sequence holds these KV
  // blocks but does not count as a user; kNoKvBlock means that it does not hold
  // that page there. New pages lie on the host alone, and their KV blocks are
  // returned. Stops at a page that is unknown and has no KV block, or whose KV
  // block stands for another page. REQUIRES: one kind for each KV block.
  std::vector<KvBlockId> EnterHost(const PrefixPath& path,
                                   std::span<const PageKind> kinds,
                                   std::span<const KvBlockId> host_kv_blocks);

  // Adds or removes one user of these KV blocks, and marks them as last used.
  // KV blocks that the index does not know are skipped. REQUIRES: Unpin undoes
  // a Pin or an Enter.
  void Pin(std::span<const KvBlockId> kv_blocks);
  void Unpin(std::span<const KvBlockId> kv_blocks);

  // Where the page lies that would leave the device next; nothing if no page on
  // it is idle.
  std::optional<PagePlaces> NextToEvict() const;
  // The next `num_pages` to leave, in order; fewer if fewer are idle.
  std::vector<PagePlaces> NextToEvict(int64_t num_pages) const;
  // Changes whenever the result of NextToEvict may change.
  uint64_t order_version() const { return order_version_; }
  // Removes the next page from the device and returns its KV block. The index
  // forgets the page unless it lies on the host too. Nothing if no page is
  // idle. REQUIRES: the page lies on the host, or no page is below it.
  std::optional<KvBlockId> Evict();

  // The page in `kv_block` now lies in `host` too. REQUIRES: it lay on the
  // device alone, and `host` held no page.
  void AddHost(KvBlockId kv_block, KvBlockId host);
  // Gives up a host KV block, and forgets its page if that lies nowhere else.
  // Nothing if each host KV block holds the only copy of a page that is pinned
  // or has pages below.
  std::optional<KvBlockId> EvictHost();
  // Adds a user to pages that lie on the host alone and will be promoted.
  void PinHost(std::span<const KvBlockId> host_kv_blocks);
  // The pinned page in `host` now lies in `kv_block` of the device too.
  // REQUIRES: so does the page above it; `kv_block` holds no page.
  void Promote(KvBlockId host, KvBlockId kv_block);

  // The places of the page in `host`, if the index has it right below the page
  // in `above`. Without `above` it must be the first page of a text.
  std::optional<PagePlaces> FindBelow(std::optional<KvBlockId> above,
                                      KvBlockId host) const;

  // Forgets the path's pages of the first of `kinds`, deepest first, with or
  // without users. Returns their places. Walks as Find does. REQUIRES: the
  // pages end the path, no others are below them, and none has more than one
  // user.
  std::vector<PagePlaces> Forget(const PrefixPath& path,
                                 std::span<const PageKind> kinds);

  // True if Withdraw may remove the pages in `kv_blocks`, each below the one
  // before. Nothing else is below them, and none has more than one user.
  bool CanWithdraw(std::span<const KvBlockId> kv_blocks) const;
  // Forgets the pages, deepest first, and returns their places. REQUIRES:
  // CanWithdraw.
  std::vector<PagePlaces> Withdraw(std::span<const KvBlockId> kv_blocks);

  bool Holds(KvBlockId kv_block) const { return NodeOf(kv_block) != kNone; }
  // The host KV block with a duplicate of the page in `kv_block`.
  std::optional<KvBlockId> HostOf(KvBlockId kv_block) const {
    return Holds(kv_block) ? nodes_[NodeOf(kv_block)].places.host
                           : std::nullopt;
  }
  bool HasPagesBelow(KvBlockId kv_block) const {
    return Holds(kv_block) && nodes_[NodeOf(kv_block)].num_children > 0;
  }
  // The number of these KV blocks that have a user.
  int64_t NumUsed(std::span<const KvBlockId> kv_blocks) const;
  int64_t num_pages() const { return num_pages_; }
  // Idle pages on the device.
  int64_t num_idle() const { return num_idle_; }
  // Users beyond the first, summed over all pages.
  int64_t num_repeated() const { return num_repeated_; }
  PrefixSnapshot Snapshot() const;

 private:
  using NodeId = uint32_t;
  static constexpr NodeId kNone = 0xffffffff;

  // A page, or a root. A root has children alone.
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
  // The node of that hash, which need not be the page.
  NodeId At(uint64_t hash) const;
  bool IsPage(NodeId node, NodeId parent, PageKind kind,
              std::span<const int32_t> tokens) const;
  NodeId Child(NodeId parent, PageKind kind,
               std::span<const int32_t> tokens) const;
  // The nodes of the longest known beginning of the path.
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
  // Call before and after a change to the keys of the orders below.
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
  // Ordered by last use. In the first two no two nodes share a time, because a
  // call touches one path.
  using ByLastUse = std::set<std::pair<uint64_t, NodeId>>;
  ByLastUse evictable_;  // idle, on the device, no page below on the device
  ByLastUse host_evictable_;  // idle, on the host alone, no page below
  ByLastUse duplicates_;      // on both tiers
  uint64_t clock_ = 0;
  uint64_t order_version_ = 0;
  int64_t num_pages_ = 0;
  int64_t num_idle_ = 0;
  int64_t num_repeated_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_KV_PREFIX_INDEX_H_
