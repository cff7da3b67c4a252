// Prefixes that outlive the process: written to a disk behind the steps, and
// brought back before a request's first one.
#ifndef WINNOW_ENGINE_RESIDENCY_DISK_PREFIXES_H_
#define WINNOW_ENGINE_RESIDENCY_DISK_PREFIXES_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/disk/disk_store.h"
#include "cache/host/host_pool.h"
#include "engine/request/sequence.h"
#include "engine/residency/prefix_cache.h"
#include "kv/kv_cache.h"

namespace winnow {

// What people are told of DiskPrefixes::end().
std::string NotKept(const Error& end);

struct DiskPrefixesOptions {
  // What bits depend on besides the request: who computes, and how.
  std::string computed_by;
  bool batch_invariant = false;
  std::vector<std::string> selectors;  // by Request::selector
  // Fails where what was computed by now may not be what the store's header
  // says. Asked before pages are written; none: never.
  std::function<Status()> check_made_with = {};
  // Of pages on their way between disk and device: at least two, and no more
  // than keep a disk busy.
  int64_t staging_bytes = 64 << 20;
  // Copied for the disk before one step, so that none gets long by it.
  int64_t step_bytes = 16 << 20;
};

// Owns the store and the host memory that pages pass through. Used by the
// engine's thread alone, which never waits for the disk while a step can run.
//
// A restored page is one that the request owns already: room that it was
// promised is taken when it opens, and filled from the disk instead of by a
// step; on the host, where it is read layer by layer. What is to be written is
// held by sequences of KvCache that no request knows, until its last page has
// been copied; num_held_pages() are not to be promised to others meanwhile.
// Copies between staging and the pools go out on the queue of the steps, so
// what a step writes is never older than they are.
//
// Pages computed with decode rows are kept for requests without a selector
// alone: the others' kinds are numbers of this engine's options.
class DiskPrefixes {
 public:
  // REQUIRES: kv and prefixes outlive this, device is what lies behind kv, and
  // the store's pieces are its KV blocks.
  static Result<std::unique_ptr<DiskPrefixes>> Create(
      std::unique_ptr<DiskStore> store, Backend& backend,
      const LayerBlockPool& device, KvCache& kv, const PrefixCache& prefixes,
      const DiskPrefixesOptions& options);
  DiskPrefixes(const DiskPrefixes&) = delete;
  DiskPrefixes& operator=(const DiskPrefixes&) = delete;
  ~DiskPrefixes() { Abandon(); }

  // Pages of the prompt that are on the disk, behind those that the sequence
  // has begun with.
  std::vector<DiskPlace> Find(const Sequence& sequence) const;
  // Starts to bring them. REQUIRES: they are the first of Find's of just now;
  // the sequence owns room for them in kv, unsealed, or has it as a loan.
  void Restore(const Sequence& sequence, std::vector<DiskPlace> found);
  // It ends, and wants no pages any more.
  void Forget(SequenceId id);

  // A text whose pages the index holds, and that is to be kept.
  struct Text {
    SequenceId writer;  // that has left it
    std::string index_root, disk_root;
    std::vector<int32_t> tokens;
    std::vector<PageKind> kinds;  // [pages]

    PrefixPath path() const { return {disk_root, tokens}; }
  };
  // Of what a sequence has computed. Empty where it takes no part.
  Text TextOf(const Sequence& sequence) const;
  void Keep(Text text);

  // A sequence whose pages are there, or whose first ones are: the rest is to
  // be computed.
  struct Restored {
    SequenceId id;
    std::vector<PageKind> kinds;  // [pages], behind those it began with
  };
  // Takes what the disk has done; with `wait`, something if it does anything.
  std::vector<Restored> Poll(bool wait);
  // By who left them, the pages that were written by the last Poll and had not
  // been taken.
  std::map<SequenceId, int64_t> TakeWritten() {
    return std::exchange(written_, {});
  }
  // What brings pages from staging(), to be enqueued at once after Poll: before
  // any of their KV blocks changes hands.
  std::vector<TierCopy> TakeUploads();
  // Those of them that go to the host's pool: `from` staging.
  std::vector<HostCopy> TakeHostUploads();
  // What takes pages there, to be enqueued at once, after all that kv has
  // decided so far and before anything else.
  std::vector<TierCopy> TakeDownloads();
  // Those that come from the host's pool: `to` staging. REQUIRES: right behind
  // TakeDownloads.
  std::vector<HostCopy> TakeHostDownloads();
  const HostPool& staging() const { return *staging_; }
  // The queue has come past all copies that were taken.
  void LandCopies();

  // Whether there is anything left to write or to bring, or copies that were
  // taken have not landed.
  bool is_busy() const;
  // Whether there is nothing to do for it but to wait. REQUIRES: what was taken
  // has landed.
  bool is_waiting() const {
    return store_->num_under_way() > 0 && !store_->has_refused();
  }
  // As PieceQueue::SetListener.
  void SetListener(std::function<void()> on_done) {
    store_->SetListener(std::move(on_done));
  }
  int64_t num_held_pages() const { return num_held_pages_; }
  // Gives texts up, written or not, the newest first, until so many more
  // KV blocks are free; those stay by which none comes free, as others hold all
  // their pages too. False where none has come free. REQUIRES: what was taken
  // has landed.
  bool GiveUp(int64_t num_wanted);
  // The same of the newest text that holds pages on the host; false where none
  // does.
  bool GiveUpFar();
  // The same of all; false where there is none.
  bool GiveUpAll();
  // What is not there yet is not to come: those that wait, with the first of
  // their pages that are. REQUIRES: as for GiveUp, and all uploads were taken.
  std::vector<Restored> GiveUpRestores();
  const DiskStore& store() const { return *store_; }
  // Why nothing is kept or found any more, where that is so.
  const std::optional<Error>& end() const { return end_; }
  // Closes what it has opened in kv, and goes on with nothing.
  void Abandon();

 private:
  // Pages that come for one sequence.
  struct Restoration {
    size_t first_page = 0;  // of the sequence
    std::vector<DiskPlace> found;
    size_t num_begun = 0;
    size_t num_wanted = 0;  // fewer once one has failed
    std::vector<bool> is_there;
    int num_under_way = 0;
  };
  struct Reading {
    SequenceId id;
    size_t page = 0;  // of Restoration::found
    KvBlockId staging;
  };
  // Pages that wait to be written, in kv as sequences of their own: those on
  // the device are pages of the first, those behind them a loan of the second.
  struct Backlog {
    SequenceId id, far_id;
    std::shared_ptr<const Text> text;
    std::optional<size_t> next_page = {};
  };
  struct Writing {
    KvBlockId staging;
    SequenceId writer;
  };
  struct Copied {
    std::shared_ptr<const Text> text;
    size_t page = 0;
    KvBlockId staging;
  };
  DiskPrefixes(std::unique_ptr<DiskStore> store, KvCache& kv,
               const PrefixCache& prefixes, const DiskPrefixesOptions& options)
      : store_(std::move(store)),
        kv_(kv),
        prefixes_(prefixes),
        options_(options) {}
  std::string DiskRoot(const Sequence& sequence) const;
  // Kinds of pages that a request may begin with, and leave behind.
  std::vector<PageKind> KindsFor(const Sequence& sequence) const;
  // How many of a text's first pages are on the disk.
  size_t NumThere(const Text& text) const;
  std::optional<KvBlockId> TakeStaging();
  void StartReads();
  void StartCopies();
  void LandRead(const Reading& reading, const Status& status);
  std::optional<Restored> EndIfDone(SequenceId id);
  void EndBacklog(size_t index);
  // A page of the text on its way to staging.
  void CopyToStaging(const Backlog& text, size_t page, KvBlockId staging);
  void Write(std::span<const Copied> pages);
  // Whether `landed` may be written. If not, nothing is from now on.
  bool MayWrite(std::span<const Copied> landed);

  std::unique_ptr<HostPool> staging_;  // outlives the store's transfers
  std::unique_ptr<DiskStore> store_;
  KvCache& kv_;
  const PrefixCache& prefixes_;
  const DiskPrefixesOptions options_;
  std::vector<KvBlockId> free_staging_;
  std::map<SequenceId, Restoration> restorations_;
  std::unordered_map<uint64_t, Reading> readings_;  // by ticket
  std::unordered_map<uint64_t, Writing> writings_;  // by ticket
  std::map<SequenceId, int64_t> written_;           // pages, not yet taken
  std::deque<Backlog> backlog_;
  // Not yet taken.
  std::vector<TierCopy> uploads_, tier_downloads_;
  std::vector<HostCopy> host_uploads_, host_downloads_;
  std::vector<Copied> downloads_;    // taken, not yet landed
  std::vector<KvBlockId> uploaded_;  // staging of uploads that were taken
  std::optional<Error> end_;
  int64_t num_held_pages_ = 0;
  uint64_t next_id_ = uint64_t{1} << 63;  // never a request's
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_DISK_PREFIXES_H_
