// KvCache: which KV block each page of each sequence has, on device and host.
#ifndef WINNOW_KV_KV_CACHE_H_
#define WINNOW_KV_KV_CACHE_H_

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/growth.h"
#include "kv/invariants.h"
#include "kv/kv_block_pool.h"
#include "kv/page_range.h"
#include "kv/page_table.h"
#include "kv/prefix_index.h"
#include "kv/reclaimable_pages.h"
#include "kv/write_behind.h"

namespace winnow {

class KvCache;

// KV blocks of both tiers for a sequence that has no pages yet. It writes them
// freely, except the first `hosts`, which may be pages that others share.
struct PageLoan {
  std::vector<KvBlockId> kv_blocks;  // ascending
  std::vector<KvBlockId> hosts;
};

// The pages for one step. Commit() keeps them. Without it the destructor
// restores the cache, except that pages that only the prefix index held may be
// gone. Must not outlive its KvCache.
class [[nodiscard]] Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  // Copy-on-write. Carry out all of them before the step writes. No KV block is
  // a target twice, or both target and source.
  std::span<const KvBlockCopy> copies() const { return copies_; }

  // Keeps the pages. Their content is not valid until Seal. REQUIRES: not
  // committed before; KvCache::TakeTierCopies was called, because the step may
  // overwrite the sources of those copies.
  void Commit();

 private:
  friend class KvCache;
  struct Step {
    SequenceId sequence;
    int num_tokens_before = 0;
    std::optional<KvBlockId> replaced;  // the last page's KV block before
  };

  explicit Reservation(KvCache& cache) : cache_(&cache) {}

  KvCache* cache_;  // null once committed or moved from
  std::vector<Step> steps_;
  std::vector<KvBlockCopy> copies_;
};

// Owns the page tables of all sequences, the KV block pools of device and host,
// and the prefix index. Touches no bytes. Used by the engine's thread alone.
// The invariants of BrokenInvariants hold after every call, also while a
// Reservation is open.
//
// A token passes three marks. Reserve gives it room, and pages() shows the
// tables that the pending step needs. Commit keeps the room. Seal says that its
// bytes exist in all layers, after the step has landed. Owning a page does not
// prove that its content is valid.
//
// Pages that no sequence holds may stay as idle pages for requests with the
// same prefix. Idle pages count as free. When the device is short, an idle page
// moves to the host, or is dropped if the host has no room. A sequence that
// begins with pages of the host gets KV blocks of the device at once;
// TakeTierCopies returns the copies that fill them. The host copies stay as
// duplicates until the host is short. The order of the copies matters: one KV
// block may be the source of one copy and the target of the next.
//
// MoveToHost offloads pages of a running sequence. The sequence holds them on
// the host until it ends or MoveToDevice returns them. The prefix index treats
// its own entries of such pages as idle. Lend gives KV blocks to the owner of
// cache slots, LendTo to a sequence whose pages are computed layer by layer.
//
// The next step may reuse a KV block that Truncate or Close frees. Steps of one
// queue run in order, so that step cannot overtake a copy that still reads the
// KV block. A writer of KV blocks on another queue, or by the CPU, waits for
// the last step that was launched before.
//
// REQUIRES of Open, Fork, Enter, Reserve, Seal, Truncate and Close: no
// Reservation is open. REQUIRES of all: the named sequence is open.
class KvCache {
 public:
  // `page_tokens` differs from kPageTokens for data other than KV: the segments
  // of a selector's summaries follow the same rules. REQUIRES: 0 <=
  // num_kv_blocks, num_host_kv_blocks <= kMaxKvBlocks; page_tokens > 0, and
  // kPageTokens if there is a host.
  explicit KvCache(int64_t num_kv_blocks, int page_tokens = kPageTokens,
                   int64_t num_host_kv_blocks = 0);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  // CHECKs that every sequence was closed.
  ~KvCache();

  // Begins an empty sequence. REQUIRES: the id is not open.
  void Open(SequenceId sequence);
  // Begins a sequence whose first pages are the hit's, all sealed. REQUIRES:
  // the hit is of prefixes(), and nothing has changed since Find. Beside the
  // hit's device pages, as many pages are free as the hit has on the host.
  void Open(SequenceId sequence, const PrefixHit& hit);
  // Begins `child` with all of the parent's tokens in the same KV blocks, the
  // open page included. The next writer of a shared page gets a copy. REQUIRES:
  // all tokens of the parent are sealed, its pages are resident, and the
  // child's id is not open.
  void Fork(SequenceId parent, SequenceId child);
  // As Fork, with the first `num_tokens` of a parent that goes on. REQUIRES:
  // these tokens are sealed and fill their pages; the pages are resident; the
  // child's id is not open.
  void Share(SequenceId parent, SequenceId child, int num_tokens);
  // Enters the sequence's first pages into the prefix index under `path`, with
  // one kind for each page. Stops at the first page that a fork holds too.
  // Offloaded pages are entered as pages of the host. REQUIRES: the pages are
  // sealed, and pages hold KV.
  void Enter(SequenceId sequence, const PrefixPath& path,
             std::span<const PageKind> kinds);

  // Drops the path's pages of the first of `kinds` from the prefix index. A
  // sequence that holds them keeps them. REQUIRES: as PrefixIndex::Forget.
  void Forget(const PrefixPath& path, std::span<const PageKind> kinds);
  // Moves the next idle page off the device, as a shortage would. False if
  // there is no idle page.
  bool ReclaimIdle();
  // Copies idle pages to the host ahead of need, so that they later leave the
  // device without a copy (kv/write_behind.h). Returns the number of copies.
  int64_t WriteBehind(const WriteBehindLimits& limits);
  // Returns the copies decided since the last call. Carry them out in this
  // order, before a reservation's copies and its step.
  [[nodiscard]] std::vector<TierCopy> TakeTierCopies();

  // Takes all pages that a step needs, or none and returns nothing. A sequence
  // that is about to write into a shared page gets a fresh KV block and a
  // KvBlockCopy; the last owner writes in place. REQUIRES: each sequence is
  // named once.
  [[nodiscard]] std::optional<Reservation> Reserve(
      std::span<const Growth> growths);
  // The number of pages that Reserve would take, and of those available.
  // REQUIRES: as Reserve.
  PageNeed Need(std::span<const Growth> growths) const;
  bool CanGrow(std::span<const Growth> growths) const {
    return Need(growths).fits();
  }

  // The pages before `end_page` that may leave the device now, down to the
  // first page that others hold too. Empty if others may enter pages below one
  // that must stay. REQUIRES: tokens before end_page are sealed.
  PageRange Movable(SequenceId sequence, int64_t end_page) const;
  // Moves `range` to the host. The prefix index forgets its entries behind
  // these pages. Returns the number of pages that are copied because the host
  // had no duplicate. REQUIRES: `range` is the last result of Movable, and
  // num_available_host_pages() >= num_whole.
  int64_t MoveToHost(SequenceId sequence, const PageRange& range);
  // Offloaded pages whose bytes still lie in their former KV blocks. Valid
  // until the next call that takes KV blocks. The sequence holds no reference,
  // so a step may read the bytes only if it is enqueued before the edits of
  // that call.
  std::vector<ReclaimablePage> ReclaimablePagesOf(SequenceId sequence) const;
  // Returns the first `num_pages` offloaded pages to the device. A page that
  // the index still has on the device needs no copy and becomes shared. A page
  // that the index has on the host becomes shared too, as long as all pages
  // before it are. The sequence releases its KV blocks of the host. Returns the
  // number of copies. REQUIRES: as many pages are offloaded, and
  // num_free_pages() >= num_pages.
  int64_t MoveToDevice(SequenceId sequence, int64_t num_pages);
  // The number of copies if all offloaded pages were to return.
  int64_t NumToCopy(SequenceId sequence) const;
  // Takes a KV block out of the tables' use until GiveBack; nothing if none is
  // free. REQUIRES of GiveBack: the KV block is lent, and its last step has
  // landed.
  std::optional<KvBlockId> Lend();
  void GiveBack(KvBlockId kv_block);

  // Lends KV blocks of both tiers to a sequence without tokens, until TakeOver
  // or Close. The first `hosts` are the hit's pages: others may hold them, and
  // nobody writes them. Pages of the hit that lie on the device alone are
  // copied to the host. Returns the number of copies. REQUIRES:
  // num_free_pages() and num_available_host_pages() suffice; the sequence has
  // no loan; the hit is as Open wants it, with at most num_hosts pages.
  int64_t LendTo(SequenceId sequence, int64_t num_kv_blocks, int64_t num_hosts,
                 const PrefixHit& hit = {});
  const PageLoan& loan(SequenceId sequence) const;
  bool has_loan(SequenceId sequence) const { return loans_.contains(sequence); }
  // Turns the loan into pages: first its KV blocks of the host, then those of
  // the device. The rest of the loan becomes free. All `num_tokens` are sealed.
  // REQUIRES: the KV blocks hold their bytes, and the pages on the host are
  // full.
  void TakeOver(SequenceId sequence, int num_tokens);

  // Declares that the bytes of tokens [0, num_tokens) exist in all layers.
  // REQUIRES: num_sealed(sequence) <= num_tokens <= num_tokens(sequence).
  void Seal(SequenceId sequence, int num_tokens);
  // Forgets tokens from `num_tokens` on, and pages left without tokens. The
  // last page stays open. A step in flight may still write the forgotten
  // tokens, because only a later step of its queue can reuse their pages.
  // REQUIRES: as PageTable::Truncate; no step in flight writes the tokens that
  // stay.
  void Truncate(SequenceId sequence, int num_tokens);
  // Ends the sequence. REQUIRES: a step in flight writes none of its sealed
  // tokens.
  void Close(SequenceId sequence);
  // Enters the sequence's pages into the prefix index and ends the sequence.
  // Unlike Enter, continues below pages that others have entered, and includes
  // pages held on the host. REQUIRES: as Enter.
  void Close(SequenceId sequence, const PrefixPath& path,
             std::span<const PageKind> kinds);

  bool is_open(SequenceId sequence) const { return tables_.contains(sequence); }
  int num_sequences() const { return static_cast<int>(tables_.size()); }
  std::vector<SequenceId> sequences() const;  // ascending
  // Owned tokens, an open Reservation's included.
  int num_tokens(SequenceId sequence) const;
  int num_sealed(SequenceId sequence) const;
  // KV blocks by logical page. pages(): kNoKvBlock for an offloaded page.
  // far_pages(): KV blocks of the host, as in PageTable. Valid until the
  // sequence changes.
  std::span<const KvBlockId> pages(SequenceId sequence) const;
  std::span<const KvBlockId> far_pages(SequenceId sequence) const;
  int64_t NumWhole(SequenceId sequence) const;
  int64_t NumFar(SequenceId sequence) const {
    return std::ssize(pages(sequence)) - NumWhole(sequence);
  }

  // The number of sequences that hold a KV block. REQUIRES: it is of the device
  // and in use.
  int64_t NumHolders(KvBlockId kv_block) const {
    return pool_.num_references(kv_block) - (prefixes_.Holds(kv_block) ? 1 : 0);
  }

  // Counts the holders beyond the first, over all full resident pages.
  int64_t NumRepeated() const;

  int64_t num_pages() const { return pool_.num_kv_blocks(); }
  // Idle pages of the prefix index included.
  int64_t num_free_pages() const {
    return pool_.num_free() + prefixes_.num_idle();
  }
  int64_t num_host_pages() const { return host_pool_.num_kv_blocks(); }
  int64_t num_free_host_pages() const { return host_pool_.num_free(); }
  // Free pages and pages that can be reclaimed. A page that two sequences hold
  // counts twice as taken.
  int64_t num_available_host_pages() const {
    return std::max<int64_t>(0, host_pool_.num_kv_blocks() - num_far_pages_);
  }
  // The number of a sequence's pages that also lie on the host.
  int64_t NumOnHost(SequenceId sequence) const;
  const PrefixIndex& prefixes() const { return prefixes_; }
  KvSnapshot Snapshot() const;

 private:
  friend class Reservation;

  const PageTable& TableOf(SequenceId sequence) const;
  PageTable& TableOf(SequenceId sequence);
  void CheckNoReservation() const;
  // True if the next token goes into a page that others hold too.
  bool WritesSharedPage(const PageTable& table) const;
  KvBlockId TakeKvBlock();
  std::optional<KvBlockId> TakeHostKvBlock();
  std::vector<KvBlockId> IndexedFrom(SequenceId sequence, int64_t page) const;
  // A KV block of the device for the page in `host`. The index gets it too if
  // it has that page right below the one in `above`. The second value is true
  // if a copy is due.
  std::pair<KvBlockId, bool> BringBack(std::optional<KvBlockId> above,
                                       KvBlockId host);
  // A sequence begins to hold KV blocks, or ceases to.
  void Hold(std::span<const KvBlockId> kv_blocks);
  void LetGo(std::span<const KvBlockId> kv_blocks);
  void Enter(SequenceId sequence, const PrefixPath& path,
             std::span<const PageKind> kinds, bool ends);
  void EnterFarPages(SequenceId sequence, const PrefixPath& path,
                     std::span<const PageKind> kinds);
  void Grow(const Growth& growth, Reservation& reservation);
  void Undo(const Reservation& reservation);
  // KV blocks of the host for the hit's pages, each with one more reference.
  std::vector<KvBlockId> HoldOnHost(const PrefixHit& hit);
  void EndLoan(SequenceId sequence);

  const int page_tokens_;
  KvBlockPool pool_;
  KvBlockPool host_pool_;
  PrefixIndex prefixes_;
  std::set<KvBlockId> lent_;
  std::map<SequenceId, PageLoan> loans_;
  std::map<SequenceId, ReclaimablePages>
      reclaimable_;            // of sequences that gave up pages
  int64_t num_far_pages_ = 0;  // over all tables and loans
  // The state at which WriteBehind last had nothing left to do: the index'
  // order version and its number of pages to cover.
  std::pair<uint64_t, int64_t> written_at_ = {~uint64_t{0}, 0};
  std::vector<TierCopy> tier_copies_;       // not yet taken
  std::map<SequenceId, PageTable> tables_;  // ordered: snapshots compare
  bool reservation_is_open_ = false;
};

}  // namespace winnow

#endif  // WINNOW_KV_KV_CACHE_H_
