// Carries out a StepPlan: launch, draw, collect.
#ifndef WINNOW_ENGINE_RUN_RUNNER_H_
#define WINNOW_ENGINE_RUN_RUNNER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/device/device_cache.h"
#include "cache/host/host_pool.h"
#include "engine/residency/hidden_store.h"
#include "engine/residency/layerwise_prompts.h"
#include "engine/residency/request_slots.h"
#include "engine/run/prompt_scorer.h"
#include "engine/run/sampler.h"
#include "engine/run/step_tables.h"
#include "engine/schedule/step_plan.h"
#include "engine/selection/read_watch.h"
#include "engine/selection/selector_set.h"
#include "kv/kv_cache.h"
#include "model/forward/model.h"
#include "model/forward/transformer.h"

namespace winnow {

struct RunnerOptions {
  int max_rows = 0;       // tokens a step
  int max_requests = 0;   // sequences a step
  int max_model_len = 0;  // tokens a sequence
  bool batch_invariant = false;
  bool layer_ranges = false;    // plans may split the layers
  ReadWatchOptions watch = {};  // no rows: nobody may watch
  // Rows of prompts whose logits are there at once; 0: none are asked for.
  int max_scored_rows = 0;
};

// What a row said of the prompt's token behind it.
struct ScoredToken {
  SequenceId sequence;
  GeneratedToken token;
};

// What a step brings back to the host.
struct StepOutput {
  std::vector<DrawnToken> drawn;
  std::vector<ScoredToken> scored;  // by rows, in the order of the plan's items
  // By rows, in the order of the plan's items: the share of its context that a
  // row read, summed over the layers in which its selector chooses. Empty where
  // no item has a selector.
  std::vector<float> read_shares;
  // By items of the plan. Empty where no request may have slots.
  std::vector<FetchedPieces> brought;
};

// Owns the workspace of a step. Used by the engine's thread alone. Nothing is
// allocated on a device after Create. A plan that runs whole may be run in its
// three parts, and the next one launched before it is collected: at all times
// at most two steps are under way, of which the first is drawn.
class Runner {
 public:
  using SequenceOf = std::function<const Sequence*(SequenceId)>;

  // Of requests whose pages are not all whole; null: there are none.
  struct FarPages {
    RequestSlots* slots = nullptr;
    LayerwisePrompts* layerwise = nullptr;
  };
  // REQUIRES: backend, model, cache, selectors and what is far outlive the
  // runner.
  static Result<std::unique_ptr<Runner>> Create(Backend& backend,
                                                const Model& model,
                                                DeviceCache& cache,
                                                SelectorSet& selectors,
                                                const FarPages& far,
                                                const RunnerOptions& options);

  // The queue of the steps. Work that is enqueued there between two calls runs
  // between their steps.
  Queue& queue() { return *queue_; }
  // Runs the plan to its end. REQUIRES: no step is under way; `kv` owns pages
  // for all its tokens, and the selectors segments; `sequence_of` knows them.
  // Fails where the device does.
  Result<StepOutput> Run(const StepPlan& plan, const KvCache& kv,
                         const SequenceOf& sequence_of);
  // Enqueues all of the plan up to the logits. An item's last token may be what
  // the step under way draws: its id is read on the device.
  // REQUIRES: the plan runs whole; one step at most is under way, and drawn;
  // otherwise as Run.
  void Launch(const StepPlan& plan, const KvCache& kv,
              const SequenceOf& sequence_of);
  // Enqueues the draws of the step that was launched last, and what comes back
  // of it. Who has ended is null for `sequence_of`, and draws nothing.
  // REQUIRES: all steps before it have been collected.
  void Draw(const SequenceOf& sequence_of);
  // Waits for the first step under way. Fails where the device does.
  Result<StepOutput> Collect();

  // Waits for all that has been enqueued, where no step does.
  Status Drain();
  // Forgets a sequence that ends between layer ranges.
  void Forget(SequenceId id);

 private:
  struct SamplingItem {
    SequenceId sequence;
    bool is_watched = false;
  };
  // Row `row` reads the token that the step ahead draws as its `drawn`-th.
  struct DrawnRow {
    int row = 0;
    int drawn = 0;
  };
  // Items of one layer range, layerwise or not, and their tables' views.
  struct Group {
    std::vector<StepItem> items;
    std::vector<const Sequence*> sequences;  // as items; until it is launched
    std::vector<SamplingItem> sampling;
    std::vector<DrawnRow> drawn_rows;  // ascending
    std::vector<ScoredRow> scored;
    // Rows among which all generated ones are; 0 and 0 where there is none.
    int first_decode_row = 0;
    int end_decode_row = 0;
    ForwardArgs args;
    std::optional<Event> end = {};  // since it was drawn

    bool is_layerwise() const { return items.front().layerwise; }
  };

  Runner(Backend& backend, const Model& model, DeviceCache& cache,
         SelectorSet& selectors, const RunnerOptions& options,
         StepTables tables);
  void GatherPages(Group& group, const KvCache& kv);
  void GatherSlots(Group& group);
  void CollectBrought(const Group& group, StepOutput* output) const;
  Status AllocateWorkspace();
  Group Gather(std::span<const StepItem> items, const KvCache& kv,
               const SequenceOf& sequence_of);
  View PutIntegers(const std::vector<int32_t>& values);  // i32 [values]
  void GatherRows(Group& group);
  // Adds the item's tokens, the last perhaps not yet known.
  void GatherTokens(const StepItem& item, const Sequence& sequence,
                    Group& group, std::vector<int32_t>* token_ids) const;
  void CopyDrawn(const Group& group);
  void GatherRope(Group& group);
  void GatherSelection(Group& group);
  void GatherWatched(Group& group);
  void LaunchGroup(std::span<const StepItem> items, const KvCache& kv,
                   const SequenceOf& sequence_of);
  Status CollectGroup(StepOutput* output);
  void EnqueueForward(const Group& group);
  void CollectShares(const Group& group, StepOutput* output) const;
  void CollectScored(const Group& group, StepOutput* output) const;
  void TellReads(const Group& group, std::span<DrawnToken> drawn) const;
  void RestoreHidden(const Group& group);
  void StoreHidden(const Group& group);
  void CopyLayerFromHost(const Group& group);
  void CopyLayerToHost(const Group& group);

  Backend& backend_;
  const Model& model_;
  DeviceCache& cache_;
  SelectorSet& selectors_;
  FarPages far_;
  const RunnerOptions options_;
  StepTables tables_;
  std::deque<Group> under_way_;  // at most two, of which the first is drawn
  std::unique_ptr<Queue> queue_;
  std::optional<Activations> activations_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<PromptScorer> scorer_;  // null: nobody asks
  std::optional<HiddenStore> store_;      // where plans may split the layers
  std::unique_ptr<ReadWatch> watch_;      // null: nobody may
  Buffer hidden_;                         // f32 [max_rows, hidden]
  // With selectors: f32 [max_rows] each, on the device, on the host, and what
  // they begin with.
  Buffer shares_, host_shares_, zeros_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_RUNNER_H_
