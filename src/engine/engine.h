// The loop: plan a step and launch it, then land the one before.
#ifndef WINNOW_ENGINE_ENGINE_H_
#define WINNOW_ENGINE_ENGINE_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/request/sequence.h"
#include "engine/request_limits.h"
#include "engine/residency/disk_patience.h"
#include "engine/residency/disk_prefixes.h"
#include "engine/residency/layerwise_prompts.h"
#include "engine/residency/prefix_cache.h"
#include "engine/residency/request_slots.h"
#include "engine/run/runner.h"
#include "engine/schedule/preemption.h"
#include "engine/schedule/restore_cost.h"
#include "engine/schedule/scheduler.h"
#include "engine/selection/selector_set.h"

namespace winnow {

// One model, one device, any number of requests. Not thread-safe: one thread
// adds, steps and cancels. Observers are called from Step, Cancel, Release,
// what moves a request's pages, and the destructor. Between two calls a step
// may be under way (docs/design.md section 4): its rows of requests that have
// ended are nobody's.
class Engine {
 public:
  // With `disk`, prompts are written to it behind the steps, and requests begin
  // with what is there. REQUIRES: backend and model outlive the engine; the
  // store's pieces are pages of the model's KV. Fails where memory or an option
  // does not suffice; the error names field, limit and value.
  static Result<std::unique_ptr<Engine>> Create(
      Backend& backend, const Model& model, const EngineOptions& options,
      std::unique_ptr<DiskStore> disk = nullptr);
  ~Engine();

  // Takes a request in. Fails where it can never run: its fields are out of
  // range, or it is longer than the context or the pool. One whose selector can
  // do with slots may be longer than the device's pool: it is read layer by
  // layer (LayerwisePrompts), and is never preempted.
  // REQUIRES: observer lives until its OnFinish.
  // A request with a prefix shares its pages, and waits until they are read.
  // REQUIRES: request.prefix, if any, is added and not released, and the prompt
  // begins with its tokens. Where a selector acts in prompts, a prefix and what
  // is forked from it have the same one.
  Result<SequenceId> Add(Request request, RequestObserver* observer);
  // Whether Add would take the request if it were alone; fails as Add does.
  // REQUIRES: it has no prefix.
  Status Check(const Request& request) const;
  // Reads tokens that requests to come begin with, and holds their pages.
  // Fails as Add does; there must be room for its longest request beside it.
  // The observer's OnToken is never called.
  // REQUIRES: observer lives until its OnFinish.
  Result<SequenceId> AddPrefix(Prefix prefix, RequestObserver* observer);
  // Says that no request on the prefix will be added any more: it ends with its
  // last one, at once where there is none. Nothing where it has ended already.
  // REQUIRES: not released before.
  void Release(SequenceId prefix);
  // Ends a request early, a prefix with all requests on it; nothing where it
  // has ended already.
  void Cancel(SequenceId id);

  // Takes a running request's pages, as shortage does: it waits, before those
  // that came later, and goes on where it was. Nothing where it does not run,
  // is a prefix, or layerwise.
  void Preempt(SequenceId id);
  // A running request's pages leave the device for the host, as shortage makes
  // them, and it goes on with slots. Nothing where they cannot.
  void Demote(SequenceId id);
  // Of those pages the first `num_pages`, about, come back, as room makes them;
  // nothing where there is none.
  void Promote(SequenceId id, int64_t num_pages);
  // A frame of its slots goes from a layer to another, as use makes them go.
  // Nothing where it has no slots, or one of the layers none to give or take.
  void MoveFrame(SequenceId id, int from_layer, int to_layer);
  // Takes up to `num_pages` off the device that no request holds, as shortage
  // does.
  void ReclaimIdle(int64_t num_pages);

  // What there is to do behind a step.
  enum class Progress : uint8_t {
    kGoesOn,        // more, or it is not known yet
    kWaitsForDisk,  // nothing before the disk has done something
    kNothingLeft,   // nothing, or nothing until a prefix is released
  };
  // Ends requests whose deadline has passed; then lands one step, perhaps with
  // the next one launched behind it, or does for the disk what is to be done
  // where there is none to run: it never waits for the disk. A request for
  // which no token is left to draw ends with kError, the others go on; so does
  // the oldest where nothing can run, but for who holds a prefix. Fails
  // where the device does, and then the engine is of no further use
  // (Backend::Wait): every request has ended with kError and given back its
  // pages, and Step and Add return that error from then on.
  Result<Progress> TryStep();
  // As TryStep, but waits for the disk where nothing else is to be done; false
  // where nothing is left.
  Result<bool> Step();
  // Says when TryStep has more to do than nothing: `on_done` is called on a
  // thread of the disk's, and must not call the engine. Never again once
  // another one, or none, has taken its place. Nothing where there is no disk.
  // Any thread may set it.
  void SetDiskListener(std::function<void()> on_done);
  // When TryStep has more to do because the disk has done nothing; none: it
  // never has. Of the engine's thread, as all but the listener.
  std::optional<DiskPatience::Clock::time_point> disk_due() const {
    return disk_patience_.due();
  }
  // Nobody waits for it until it ends something.
  bool disk_is_silent() const { return disk_patience_.is_over(); }

  // What the pool and tables hold, for tests and metrics.
  const KvCache& kv() const { return kv_; }
  const SelectorSet& selectors() const { return *selectors_; }
  // Null where all pages of running requests are whole.
  const RequestSlots* slots() const { return slots_.get(); }
  // Null where there is no disk.
  const DiskPrefixes* disk() const { return disk_.get(); }
  int max_model_len() const { return options_.max_model_len; }
  int max_watched_requests() const { return options_.max_watched_requests; }
  int64_t device_kv_bytes() const;
  Dtype kv_dtype() const { return model_.dtypes().kv; }
  // By what pages are copied back or computed again, as it is known by now.
  RestoreRates restore_rates() const;
  // How steps kept to options.max_step_ms, and what counts as foretold.
  const BoundedSteps& bounded_steps() const { return bounded_steps_; }
  const StepCost& step_cost() const { return step_cost_.cost(); }
  EngineCounters counters() const;

 private:
  Engine(Backend& backend, const Model& model, const EngineOptions& options,
         std::unique_ptr<DeviceCache> cache, std::unique_ptr<HostPool> host);
  Status AddSlots();
  // What a layerwise one needs counts for its life.
  void CountLayerwise(const Sequence& sequence,
                      SequenceSnapshot& snapshot) const;
  // Of summaries, once it has generated so much.
  void CountSegments(const Sequence& sequence, int num_outputs,
                     SequenceSnapshot& snapshot) const;
  // Whose segments of summaries are too few for the plan, or none.
  std::optional<int> SelectorInNeed(const StepPlan& plan) const;
  // What it has in page tables once the plan has run: nothing while it is read
  // layer by layer, or only held.
  int64_t NumTablePages(const Sequence& sequence, const StepPlan& plan) const;
  bool HasTablePages(const StepPlan& plan) const;
  // Of these requests one must be preempted, as page tables or summaries have
  // no room for the plan; empty where they have.
  std::vector<SequenceSnapshot> InTheWayOf(const StepPlan& plan) const;
  Status AddDisk(std::unique_ptr<DiskStore> store);
  // As they are, or will be when the last step under way has landed.
  std::vector<SequenceSnapshot> Snapshots(
      const StepPlan* under_way = nullptr) const;
  Schedule Plan(bool admits, const StepPlan* under_way = nullptr) const;
  StepPlan AdmitAndPlan();
  // The plan behind the step under way, where no decision waits for that to
  // land; else nothing.
  std::optional<StepPlan> PlanAhead() const;
  // Whether the sequence's next step needs what the step under way leaves on
  // the host.
  bool WaitsToLand(const Sequence& sequence) const;
  void PreemptFor(StepPlan& plan);
  // Requests give up whole pages, so that so many more KV blocks are free;
  // false where they cannot.
  bool MakeRoom(int64_t num_wanted);
  // Requests get back whole pages, while so many KV blocks are to spare.
  void UseRoom(int64_t num_spare);
  void CountShared(ScheduleInput& input) const;
  // False where it shares its prefix's summaries, if any.
  bool CountSharedByForks(SequenceSnapshot& fork) const;
  // Idle pages are copied to the host ahead, a few a step.
  void WriteBehind();
  // Whether one more may be watched, where it asks for it.
  Status CheckWatch(const Request& request, bool is_layerwise) const;
  // That it is in range, and both pools hold what it needs.
  Status CheckFits(const Request& request, bool is_layerwise) const;
  bool IsLayerwise(const Request& request) const;
  // Leaves of a max_tokens that nobody asked for as much as CheckFits takes.
  void FitMaxTokens(Request& request) const;
  // The REQUIRES of Add that concern a fork and its prefix.
  void CheckForkable(const Request& request, const Sequence& prefix) const;
  RequestRope RopeFor(int64_t planned_tokens) const;
  void Open(SequenceId id);
  void OpenFork(Sequence& sequence);
  // Summaries that other forks have, where the prefix has none. REQUIRES: the
  // prefix is read.
  SharedSummaries FindForkShared(const Request& fork) const;
  void OpenLayerwise(Sequence& sequence);
  // Lets the sequence, just opened, wait for pages that are on the disk.
  std::vector<DiskPlace> FindOnDisk(const Sequence& sequence) const;
  void BeginRestore(Sequence& sequence);
  void RestoreLayerwise(Sequence& sequence);
  // Lets pages that the disk has brought be part of their sequences.
  void PollDisk(bool wait);
  void EndRestores(const std::vector<DiskPrefixes::Restored>& all);
  void NoteDisk();
  // What was to come is computed, and what was to be written is dropped; false
  // where there is nothing of either.
  bool GiveUpOnDisk();
  void CopyForDisk();
  // The first moves pages, counted; the second says what that of a layerwise
  // item was.
  void CopyTiers(const HostPool& host, std::span<const TierCopy> copies);
  void CountLayerCopies(const StepItem& item, Sequence& sequence);
  // It has started: what it found.
  void CountFound(const Sequence& sequence);
  // How long so many bytes are on the link; 0 where its rate is not known.
  double LinkMs(int64_t num_bytes) const;
  // What the disk needs where no step runs.
  Result<Progress> TendDisk();
  void CountReads(const StepItem& item, std::span<const float> shares,
                  Sequence& sequence) const;
  // `error` says why, where the reason is kError.
  void Finish(SequenceId id, FinishReason reason,
              std::optional<Error> error = {});
  void Fail(const Error& error);
  void EndExpired();
  void EndIfUnused(SequenceId prefix);
  const Sequence* Find(SequenceId id) const;  // null: none, or ended
  bool IsKnown(SequenceId id) const;
  const Sequence& Get(SequenceId id) const;
  Sequence& Get(SequenceId id);
  // Takes pages for the plan, and makes tables and copies say so.
  void Prepare(const StepPlan& plan);
  // Who comes behind another one in the plan shares what that makes.
  void GrowSummaries(const StepPlan& plan);
  void Launch(StepPlan plan);
  // The first step under way lands; the next one is drawn.
  Status LandFirst();
  // Lands what is under way.
  Status Settle();
  Result<Progress> TendWithoutStep();
  // The oldest request, of those that wait for nobody, ends with an error.
  void GiveUpOldest();
  bool IsUnderWay(SequenceId id) const;
  Status Land(const StepPlan& plan, const Result<StepOutput>& output);
  // A step has landed: how long it took.
  void CountTime(const StepPlan& plan);
  // How fast far pages come, and are computed.
  Status BeginRates();
  Status MeasureLink();
  void UpdateRates();
  void LandRows(const StepPlan& plan, const StepOutput& output);
  void LandItem(const StepItem& item, Sequence& sequence);
  void LandDrawn(const DrawnToken& token);
  bool ActsInPrompt(int selector) const;

  Backend& backend_;
  const Model& model_;
  const EngineOptions options_;
  const int64_t num_pages_;
  const RequestLimits limits_;
  std::unique_ptr<DeviceCache> cache_;
  std::unique_ptr<HostPool> host_;  // null: none
  KvCache kv_;
  std::unique_ptr<SelectorSet> selectors_;
  std::unique_ptr<PrefixCache> prefixes_;
  std::unique_ptr<RequestSlots> slots_;  // null: none; holds KV blocks of kv_
  std::unique_ptr<LayerwisePrompts> layerwise_;  // null where slots_ is
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<DiskPrefixes> disk_;  // null: none; holds pages of kv_
  // In order of arrival, and so of their ids.
  std::vector<std::unique_ptr<Sequence>> sequences_;
  OutputHistory outputs_;
  uint64_t next_id_ = 1;
  const bool looks_ahead_;
  const Runner::SequenceOf sequence_of_;
  std::deque<StepPlan> under_way_;  // as the runner has them
  StepCostFit step_cost_;           // of nothing where nothing goes by it
  BoundedSteps bounded_steps_;
  // Of the first under way; behind one that landed while somebody waits.
  Sequence::Clock::time_point step_begun_;
  bool ran_nothing_ = false;  // the last time, though somebody waited
  RestoreRates restore_rates_;
  double link_bytes_per_second_ = 0;  // 0: not known
  DiskPatience disk_patience_;
  RateMeter disk_rate_;
  DiskCounts disk_counts_;        // that disk_rate_ knows
  EngineCounters counters_;       // but for the disk's and the link's time
  std::optional<Error> failure_;  // of the device, once and for all
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_ENGINE_H_
