// Planner: from what sequences are, and where their KV lies, to a plan.
#ifndef WINNOW_ENGINE_PLANNER_H_
#define WINNOW_ENGINE_PLANNER_H_

#include <optional>
#include <vector>

#include "engine/engine_options.h"
#include "engine/request/sequence_list.h"
#include "engine/residency/residency.h"
#include "engine/schedule/preemption.h"
#include "engine/schedule/scheduler.h"
#include "engine/step_meter.h"
#include "kv/promotion.h"

namespace winnow {

// Takes snapshots of sequences and their KV, and decides by them with the pure
// functions of schedule/ and kv/. It changes neither: the engine carries plans
// out. Each decision is told to EngineOptions::on_decision. Used by the
// engine's thread alone.
class Planner {
 public:
  // The planner's inputs. REQUIRES: they outlive it.
  struct Views {
    const SequenceList& sequences;
    const Residency& residency;
    const StepMeter& meter;
  };
  // REQUIRES: options.looks_ahead is given.
  Planner(const EngineOptions& options, int num_layers, const Views& views)
      : options_(options), num_layers_(num_layers), views_(views) {}

  // The sequences as they are, or will be when the last step under way has
  // landed.
  std::vector<SequenceSnapshot> Snapshots(
      const StepPlan* under_way = nullptr) const;
  // `admits`: sequences that wait may start; else those that run are planned.
  Schedule Plan(bool admits, const StepPlan* under_way = nullptr) const;
  // The plan behind the step under way. None where a decision waits for that
  // step to land: a sequence starts, is preempted or moves pages, or a disk is
  // busy.
  std::optional<StepPlan> PlanAhead(const StepPlan& under_way) const;
  // Of these sequences one must be preempted, as page tables or summaries have
  // no room for the plan. Empty where they have.
  std::vector<SequenceSnapshot> InTheWayOf(const StepPlan& plan) const;
  // The sequence of `candidates` that is preempted for the plan. REQUIRES: more
  // than one of all that run is no prefix.
  SequenceId Victim(std::vector<SequenceSnapshot> candidates,
                    const StepPlan& plan) const;
  // Pages that requests get back, while so many KV blocks are to spare.
  std::vector<Promotion> Promotions(int64_t num_spare) const;
  // Sequences whose deadline has passed.
  std::vector<SequenceId> Expired(Sequence::Clock::time_point now) const;
  // A request has come to its end by itself.
  void CountOutput(int num_tokens);

 private:
  const KvTiers& tiers() const { return views_.residency.tiers(); }
  bool has_host() const { return tiers().host->num_kv_blocks() > 0; }
  // A sequence that is read layer by layer holds all that it needs for life.
  void CountLayerwise(const Sequence& sequence,
                      SequenceSnapshot& snapshot) const;
  // Segments of summaries, once it has generated so much.
  void CountSegments(const Sequence& sequence, int num_outputs,
                     SequenceSnapshot& snapshot) const;
  void CountShared(ScheduleInput& input) const;
  // False where the fork shares its prefix's summaries, if any.
  bool CountSharedByForks(SequenceSnapshot& fork) const;
  // The selector whose segments of summaries are too few for the plan, or none.
  std::optional<int> SelectorInNeed(const StepPlan& plan) const;
  // Pages of the sequence in page tables once the plan has run: 0 while it is
  // read layer by layer, or only held.
  int64_t NumTablePages(const Sequence& sequence, const StepPlan& plan) const;
  bool HasTablePages(const StepPlan& plan) const;

  const EngineOptions& options_;
  const int num_layers_;
  const Views views_;
  OutputHistory outputs_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_PLANNER_H_
