// The front desk over the tiers' KV blocks: whose page is where, who gets more.
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

// KV blocks of both tiers that a sequence uses as it likes, before it has
// pages; but that the first of the host's may be pages of others.
struct PageLoan {
  std::vector<KvBlockId> kv_blocks;  // ascending
  std::vector<KvBlockId> hosts;
};

// Room for one step, taken but not yet kept: unless Commit()ed it undoes itself
// on destruction, and the cache is exactly as it was before, but for pages that
// the prefix index alone held. Must not outlive its KvCache.
class [[nodiscard]] Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  // Copy-on-write: to be carried out, all of them, before the step writes.
  // Targets are distinct and no sources.
  std::span<const KvBlockCopy> copies() const { return copies_; }

  // Keeps the room. Its content is not yet true: that is what Seal says.
  // REQUIRES: not committed before; KvCache::TakeTierCopies was called, as a
  // step would write over what is still to be copied.
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

// Owns the page tables of all sequences, the pool that they draw from, that of
// the host below it, and the index of prefixes; touches no byte. Used by the
// engine's thread alone. What BrokenInvariants lists holds after every call,
// and while a Reservation is open.
//
// Tokens pass three marks. Reserve makes a sequence own them: there is room,
// and pages() shows the tables that the pending step needs. Commit keeps them.
// Seal says that their bytes exist, after the step has landed in all layers:
// owning a page is not proof that its content is true.
//
// Pages that no sequence holds any more may stay, for those to come with the
// same prefix: they count as free, and leave the device when room is wanted:
// to the host, where it has room or can make some, else for good. A sequence
// that begins with pages of the host has them on the device at once, as
// decisions go; TakeTierCopies says how that becomes true. Their host copies
// stay as duplicates until the host is short. Copies are decided one after the
// other and are right in that order alone: a KV block may be the source of one
// and the target of the next.
//
// Pages of a sequence that goes on may leave the device too (MoveToHost): it
// holds them on the host from then on, to its end or until they come back
// (MoveToDevice), beside the prefix index, for which those that it knows are
// idle. KV blocks are lent to whoever makes slots of them, and to a sequence
// whose pages are made layer by layer (LendTo).
//
// A KV block that Truncate or Close frees may be given to the next step. Steps
// of one queue run in order, so that step cannot overtake a copy from it that
// is still under way; whoever writes KV blocks of either tier on another queue,
// or by the host's hand, waits for the last step that was launched before.
//
// While a Reservation is open nothing else may change: all of Open, Fork,
// Enter, Reserve, Seal, Truncate and Close REQUIRE that none is. All REQUIRE
// that the sequence they name is open.
class KvCache {
 public:
  // Pages may be of another length where it is no KV that lies in them: a
  // selector's summaries follow the same rules, segment by segment.
  // REQUIRES: 0 <= num_kv_blocks, num_host_kv_blocks <= kMaxKvBlocks;
  // page_tokens > 0, and kPageTokens where there is a host.
  explicit KvCache(int64_t num_kv_blocks, int page_tokens = kPageTokens,
                   int64_t num_host_kv_blocks = 0);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  // CHECKs that every sequence was closed.
  ~KvCache();

  // Begins an empty sequence. REQUIRES: the id is not open.
  void Open(SequenceId sequence);
  // Begins a sequence whose first pages, sealed, are the hit's. REQUIRES: the
  // hit is of prefixes(), nothing has changed since it was found, and beside
  // its pages on the device as many are free as it has on the host.
  void Open(SequenceId sequence, const PrefixHit& hit);
  // Begins `child` with all of the parent's tokens in the same KV blocks, the
  // open page too: whoever writes there next gets a copy. REQUIRES: the
  // parent's tokens are all sealed (only what exists is shared), its pages are
  // whole, and the child's id is not open.
  void Fork(SequenceId parent, SequenceId child);
  // The same with the first `num_tokens` of a parent that goes on. REQUIRES:
  // they are sealed and fill their pages, which are whole; the child's id is
  // not open.
  void Share(SequenceId parent, SequenceId child, int num_tokens);
  // From here on a request whose text begins like `path` finds the sequence's
  // first pages, a kind each, up to the first that a fork holds too, on the
  // host those that are not whole.
  // REQUIRES: they are sealed; pages are KV's.
  void Enter(SequenceId sequence, const PrefixPath& path,
             std::span<const PageKind> kinds);

  // Forgets the path's pages of the first of `kinds`; a sequence that holds
  // them keeps them for itself. REQUIRES: as PrefixIndex::Forget.
  void Forget(const PrefixPath& path, std::span<const PageKind> kinds);
  // The idle page whose turn it is leaves the device, as if room were wanted.
  // False where there is none.
  bool ReclaimIdle();
  // Copies idle pages ahead, so that they leave without a copy when room is
  // wanted (kv/write_behind.h). Returns how many.
  int64_t WriteBehind(const WriteBehindLimits& limits);
  // What has been decided since the last call, to be carried out in this order
  // before all else that comes: before a reservation's copies and its step.
  [[nodiscard]] std::vector<TierCopy> TakeTierCopies();

  // Takes all pages that a step needs, or none and returns nothing. A sequence
  // about to write into a shared page gets a fresh KV block and an KvBlockCopy;
  // the last owner writes in place. REQUIRES: each sequence is named once.
  [[nodiscard]] std::optional<Reservation> Reserve(
      std::span<const Growth> growths);
  // What Reserve would take, and from how many. REQUIRES: as Reserve.
  PageNeed Need(std::span<const Growth> growths) const;
  bool CanGrow(std::span<const Growth> growths) const {
    return Need(growths).fits();
  }

  // Which pages before `end_page` may leave the device at once: down to the
  // first that others hold too. None where others may come below a page that
  // must stay. REQUIRES: tokens before end_page are sealed.
  PageRange Movable(SequenceId sequence, int64_t end_page) const;
  // They do; those that the prefix index knows of the pages behind them are
  // forgotten there. Returns how many are copied, as they were not there.
  // REQUIRES: `range` is Movable's of just now, and num_available_host_pages()
  // is num_whole at least.
  int64_t MoveToHost(SequenceId sequence, const PageRange& range);
  // Of those that a sequence has given up so, the ones that lie yet where they
  // lay, as nobody has taken their KV blocks: until the next call that takes
  // any. Nobody holds them for it, so a step may read them that is enqueued
  // before that call's edits are.
  std::vector<ReclaimablePage> ReclaimablePagesOf(SequenceId sequence) const;
  // The first `num_pages` of those that the sequence has on the host come back,
  // without a copy where the index still has them on the device: those are
  // shared, as is what the index has on the host, as long as the pages before
  // are. Its hold on the host's KV blocks ends. Returns how many are copied.
  // REQUIRES: it has as many there, and num_free_pages() is as many at least.
  int64_t MoveToDevice(SequenceId sequence, int64_t num_pages);
  // How many that would be, were all of them to come back.
  int64_t NumToCopy(SequenceId sequence) const;
  // A KV block leaves the tables, until it is given back; nothing where none is
  // free. REQUIRES of GiveBack: it is lent; its last step has landed.
  std::optional<KvBlockId> Lend();
  void GiveBack(KvBlockId kv_block);

  // KV blocks leave the tables for a sequence without tokens, until TakeOver or
  // Close. The first of the host's are those of the hit's pages, which others
  // may hold too and which nobody writes; what lies on the device alone is
  // copied there. Returns how many that are. REQUIRES: num_free_pages() and
  // num_available_host_pages() are as many at least; it has no loan; the hit is
  // as Open wants it, and has num_hosts pages at most.
  int64_t LendTo(SequenceId sequence, int64_t num_kv_blocks, int64_t num_hosts,
                 const PrefixHit& hit = {});
  const PageLoan& loan(SequenceId sequence) const;
  bool has_loan(SequenceId sequence) const { return loans_.contains(sequence); }
  // Of its loan, the KV blocks of the host become the sequence's first pages,
  // and the device's first ones those behind them; the others are free again.
  // All `num_tokens` are sealed. REQUIRES: the KV blocks hold their bytes, and
  // those of the host are full.
  void TakeOver(SequenceId sequence, int num_tokens);

  // The bytes of tokens [0, num_tokens) exist in all layers.
  // REQUIRES: num_sealed(sequence) <= num_tokens <= num_tokens(sequence).
  void Seal(SequenceId sequence, int num_tokens);
  // Forgets tokens from `num_tokens` on, with the pages that hold no others;
  // the open tail stays. A step in flight may still write them: who gets their
  // pages is a later step of its queue. REQUIRES: as PageTable::Truncate; what
  // stays is written by no step in flight.
  void Truncate(SequenceId sequence, int num_tokens);
  // Ends the sequence. REQUIRES: a step in flight that names it writes none of
  // its sealed tokens.
  void Close(SequenceId sequence);
  // The same, after it has entered what it leaves behind, also below pages that
  // others have entered, and pages that it holds on the host. REQUIRES: as
  // Enter.
  void Close(SequenceId sequence, const PrefixPath& path,
             std::span<const PageKind> kinds);

  bool is_open(SequenceId sequence) const { return tables_.contains(sequence); }
  int num_sequences() const { return static_cast<int>(tables_.size()); }
  std::vector<SequenceId> sequences() const;  // ascending
  // Owned, those of an open Reservation included.
  int num_tokens(SequenceId sequence) const;
  int num_sealed(SequenceId sequence) const;
  // KV blocks by logical page, kNoKvBlock where it is not whole; and those of
  // the host, as PageTable has them. Valid until the sequence changes.
  std::span<const KvBlockId> pages(SequenceId sequence) const;
  std::span<const KvBlockId> far_pages(SequenceId sequence) const;
  int64_t NumWhole(SequenceId sequence) const;
  int64_t NumFar(SequenceId sequence) const {
    return std::ssize(pages(sequence)) - NumWhole(sequence);
  }

  // How many sequences hold a KV block of the device, which is in use.
  int64_t NumHolders(KvBlockId kv_block) const {
    return pool_.num_references(kv_block) - (prefixes_.Holds(kv_block) ? 1 : 0);
  }

  // Of pages that are full and whole: what sequences hold and others of them
  // too, the first holder of each left out.
  int64_t NumRepeated() const;

  int64_t num_pages() const { return pool_.num_kv_blocks(); }
  // Those that the prefix index alone holds among them.
  int64_t num_free_pages() const {
    return pool_.num_free() + prefixes_.num_idle();
  }
  int64_t num_host_pages() const { return host_pool_.num_kv_blocks(); }
  int64_t num_free_host_pages() const { return host_pool_.num_free(); }
  // Free, or had for the asking. (What two sequences hold counts twice.)
  int64_t num_available_host_pages() const {
    return std::max<int64_t>(0, host_pool_.num_kv_blocks() - num_far_pages_);
  }
  // Of a sequence's pages, how many lie on the host too.
  int64_t NumOnHost(SequenceId sequence) const;
  const PrefixIndex& prefixes() const { return prefixes_; }
  KvSnapshot Snapshot() const;

 private:
  friend class Reservation;

  const PageTable& TableOf(SequenceId sequence) const;
  PageTable& TableOf(SequenceId sequence);
  void CheckNoReservation() const;
  // True where the next token goes into a page that others hold too.
  bool WritesSharedPage(const PageTable& table) const;
  KvBlockId TakeKvBlock();
  std::optional<KvBlockId> TakeHostKvBlock();
  std::vector<KvBlockId> IndexedFrom(SequenceId sequence, int64_t page) const;
  // A KV block of the device for what lies in `host`, and for the index too
  // where it has that page right below the one in `above`. True where a copy
  // is due.
  std::pair<KvBlockId, bool> BringBack(std::optional<KvBlockId> above,
                                       KvBlockId host);
  // A sequence begins, or ends, to hold KV blocks.
  void Hold(std::span<const KvBlockId> kv_blocks);
  void LetGo(std::span<const KvBlockId> kv_blocks);
  void Enter(SequenceId sequence, const PrefixPath& path,
             std::span<const PageKind> kinds, bool ends);
  void EnterFarPages(SequenceId sequence, const PrefixPath& path,
                     std::span<const PageKind> kinds);
  void Grow(const Growth& growth, Reservation& reservation);
  void Undo(const Reservation& reservation);
  // KV blocks of the host for the hit's pages, held once more.
  std::vector<KvBlockId> HoldOnHost(const PrefixHit& hit);
  void EndLoan(SequenceId sequence);

  const int page_tokens_;
  KvBlockPool pool_;
  KvBlockPool host_pool_;
  PrefixIndex prefixes_;
  std::set<KvBlockId> lent_;
  std::map<SequenceId, PageLoan> loans_;
  std::map<SequenceId, ReclaimablePages>
      reclaimable_;            // of those that left any
  int64_t num_far_pages_ = 0;  // over all tables and loans
  // When all was copied ahead that was to be: the index' order, and how many
  // pages of it.
  std::pair<uint64_t, int64_t> written_at_ = {~uint64_t{0}, 0};
  std::vector<TierCopy> tier_copies_;       // not yet taken
  std::map<SequenceId, PageTable> tables_;  // ordered: snapshots compare
  bool reservation_is_open_ = false;
};

}  // namespace winnow

#endif  // WINNOW_KV_KV_CACHE_H_
