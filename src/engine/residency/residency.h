// Residency: where the KV of requests lies, on all tiers.
#ifndef WINNOW_ENGINE_RESIDENCY_RESIDENCY_H_
#define WINNOW_ENGINE_RESIDENCY_RESIDENCY_H_

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "engine/request/engine_counters.h"
#include "engine/request/sequence_list.h"
#include "engine/residency/disk_tier.h"
#include "engine/residency/kv_mover.h"
#include "engine/residency/kv_tiers.h"

namespace winnow {

struct ResidencyOptions {
  std::optional<CacheBudget> cache_budget = {};
  double write_behind_share = 0;  // as EngineOptions has it
  std::chrono::milliseconds disk_patience{0};
};

// Parts of the engine that residency uses. REQUIRES: they outlive it.
struct ResidencyLinks {
  SequenceList& sequences;
  EngineCounters& counters;
  const RestoreRates& rates;
};

// How a sequence ends.
struct SequenceEnding {
  bool is_under_way = false;  // a step that names it has not landed
  bool leaves_pages = true;   // what it has computed is true
};

// Of an ended sequence's pages, those on each tier. A page may be on both.
struct HeldKv {
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
};

// Owns the KV of all sequences and what selectors keep of it, opens and closes
// it, and moves it between the tiers. It plans nothing: Planner says which
// pages must come free, and which sequences run. Used by the engine's thread
// alone. Copies go to the queue of steps, which calls that copy name.
class Residency {
 public:
  Residency(KvTiers tiers, const ResidencyOptions& options,
            const ResidencyLinks& links);
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // Prompts are written to the disk from now on. Fails where memory does not
  // suffice. REQUIRES: there is no disk yet.
  Status AddDisk(std::unique_ptr<DiskStore> store, Backend& backend,
                 const DiskPrefixesOptions& options);

  // Whether both pools have room for the request when it is alone. `resident`:
  // whether the device has room for all its pages. The error says what would
  // have the request served.
  Status Check(const Request& request, const Status& resident) const;
  bool IsLayerwise(const Request& request) const {
    return tiers_.layerwise->Takes(request);
  }

  // Begins the KV of a sequence that is admitted: with its prefix's pages, with
  // those that others left on any tier, or with none.
  void Open(Queue& queue, Sequence& sequence);
  // Takes pages for the plan, and enqueues all copies that its step needs.
  // `shares`: a sequence may share summaries that another makes in the step.
  // REQUIRES: there is room for the plan's growths.
  void Prepare(Queue& queue, const StepPlan& plan, bool shares);
  // The item's step has copied parts of pages for the sequence: `brought` to
  // its slots, and what an item needs that is read layer by layer.
  void CountCopies(const StepItem& item, const FetchedPieces& brought,
                   Sequence& sequence);
  // The item has landed in its sequence: what it computed is true.
  void Seal(const StepItem& item, Sequence& sequence);
  // The first token is drawn: the prompt's pages are there for others.
  void Enter(const Sequence& sequence);
  // The sequence gives up its pages, and waits to be admitted again.
  // REQUIRES: it runs, and is neither a prefix nor layerwise.
  void Preempt(Sequence& sequence);
  // Ends the sequence's KV, whether it runs, waits or never ran.
  HeldKv Close(Sequence& sequence, const SequenceEnding& ending);

  // Moves slots to the layers that use them. With a cache budget, requests give
  // up what they may. REQUIRES: no step is under way.
  void Rebalance();
  // Requests give up whole pages until `num_wanted` more KV blocks are free.
  // False where nothing has changed.
  bool MakeRoom(int64_t num_wanted);
  // The same for a plan that lacks pages: texts that wait for the disk go
  // first, as a slow disk must delay no running request.
  bool MakeRoomForPlan(int64_t num_wanted);
  // The sequence's first offloaded pages come back, about `num_pages`, as far
  // as there is room.
  void Promote(Sequence& sequence, int64_t num_pages);

  // Takes what the disk has done, and ends restores.
  void PollDisk(Queue& queue, bool wait);
  // Enqueues copies for the disk.
  void CopyForDisk(Queue& queue);
  // The queue has come past these copies. A silent disk is waited for no
  // longer; true where a sequence or a text waited for it.
  bool LandDiskCopies();
  DiskTier& disk() { return disk_; }
  const DiskTier& disk() const { return disk_; }

  // Whether the sequence's next step needs what a step under way leaves on the
  // host.
  bool WaitsToLand(const Sequence& sequence) const;
  // Summaries that other forks have, where the prefix has none. REQUIRES: the
  // prefix is read.
  SharedSummaries FindForkShared(const Request& fork) const;
  const KvTiers& tiers() const { return tiers_; }
  int64_t page_bytes() const { return mover_.page_bytes(); }

 private:
  void OpenFork(Sequence& sequence);
  void OpenLayerwise(Queue& queue, Sequence& sequence);
  void BeginRestore(Queue& queue, Sequence& sequence);
  // The disk has brought pages: they are part of their sequences.
  void EndRestores(std::span<const DiskPrefixes::Restored> all);
  // Requests and texts wait for the disk no longer; false where none did.
  bool GiveUpOnDisk();
  void CountFound(const Sequence& sequence);
  // Enqueues what kv has decided until now.
  void MoveTiers(Queue& queue) {
    mover_.Move(queue, *tiers_.host, tiers_.kv->TakeTierCopies());
  }

  const ResidencyOptions options_;
  const ResidencyLinks links_;
  KvTiers tiers_;
  KvMover mover_;
  DiskTier disk_;  // holds pages of kv
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_RESIDENCY_H_
