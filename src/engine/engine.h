// Engine: the loop that plans a step, launches it, and lands the one before.
#ifndef WINNOW_ENGINE_ENGINE_H_
#define WINNOW_ENGINE_ENGINE_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "engine/engine_options.h"
#include "engine/planner.h"
#include "engine/request/engine_counters.h"
#include "engine/request/sequence_list.h"
#include "engine/request_intake.h"
#include "engine/residency/residency.h"
#include "engine/run/runner.h"
#include "engine/step_meter.h"

namespace winnow {

// One model, one device, any number of requests. RequestIntake says which
// requests may come, Planner what runs, Residency where their KV lies,
// StepMeter what steps cost. Not thread-safe: one thread adds, steps and
// cancels. Observers are called from Step, Cancel, Release, what moves a
// request's pages, and the destructor. Between two calls a step may be under
// way (docs/design.md section 4): its rows of requests that have ended belong
// to no request.
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
  Status Check(const Request& request) const { return intake_->Check(request); }
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
  // Moves a frame of the request's slots from one layer to another, as use
  // does. Does nothing if the request has no slots, or a layer none to give or
  // take.
  void MoveFrame(SequenceId id, int from_layer, int to_layer);
  // Takes up to `num_pages` off the device that no request holds, as shortage
  // does.
  void ReclaimIdle(int64_t num_pages);

  // Whether there is more to do after a step.
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
  void SetDiskListener(std::function<void()> on_done) {
    residency_->disk().SetListener(std::move(on_done));
  }
  // When TryStep has more to do because the disk has done nothing; none: it
  // never has. Of the engine's thread, as all but the listener.
  std::optional<DiskPatience::Clock::time_point> disk_due() const {
    return residency_->disk().patience().due();
  }
  // No request waits for the disk until it ends something.
  bool disk_is_silent() const {
    return residency_->disk().patience().is_over();
  }

  // The content of pool and tables, for tests and metrics.
  const KvCache& kv() const { return *residency_->tiers().kv; }
  const SelectorSet& selectors() const {
    return *residency_->tiers().selectors;
  }
  // Null where all pages of running requests are whole.
  const RequestSlots* slots() const { return far_pages().slots; }
  // Null where there is no disk.
  const DiskPrefixes* disk() const { return residency_->disk().prefixes(); }
  int max_model_len() const { return options_.max_model_len; }
  int max_watched_requests() const { return options_.max_watched_requests; }
  int64_t device_kv_bytes() const {
    return kv().num_pages() * residency_->page_bytes();
  }
  Dtype kv_dtype() const { return model_.dtypes().kv; }
  // The cost of steps and the rates of the tiers, as measured so far.
  const StepMeter& meter() const { return meter_; }
  EngineCounters counters() const {
    return meter_.Counters(residency_->disk().counts());
  }

 private:
  // REQUIRES: options are resolved, looks_ahead among them.
  Engine(const Model& model, const EngineOptions& options);
  // Null pointers where no request may have slots.
  Runner::FarPages far_pages() const;
  // Lets sequences start, makes room and preempts until a plan can run.
  StepPlan AdmitAndPlan();
  void PreemptFor(StepPlan& plan);
  // Takes pages for the plan, and enqueues its step up to the logits.
  void Launch(StepPlan plan);
  // The first step under way lands; the next one is drawn.
  Status LandFirst();
  // Lands what is under way.
  Status Settle();
  Status Land(const StepPlan& plan, const Result<StepOutput>& output);
  void LandRows(const StepPlan& plan, const StepOutput& output);
  void LandDrawn(const DrawnToken& token);
  // Serves the disk while no step runs.
  Result<Progress> TendDisk();
  Result<Progress> TendWithoutStep();
  // The oldest request ends with an error, prefixes apart.
  void GiveUpOldest();
  // `error` says why, where the reason is kError.
  void Finish(SequenceId id, FinishReason reason,
              std::optional<Error> error = {});
  void Fail(const Error& error);
  void EndIfUnused(SequenceId prefix);

  const Model& model_;
  const EngineOptions options_;
  StepMeter meter_;
  SequenceList sequences_;
  std::unique_ptr<Residency> residency_;
  std::optional<RequestIntake> intake_;
  std::optional<Planner> planner_;
  std::unique_ptr<Runner> runner_;
  const Runner::SequenceOf sequence_of_;
  std::deque<StepPlan> under_way_;  // as the runner has them
  bool ran_nothing_ = false;        // the last time, though a request waited
  std::optional<Error> failure_;    // of the device, once and for all
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_ENGINE_H_
