// Carries out a StepPlan: gather, forward, sample.
#ifndef WINNOW_ENGINE_RUNNER_H_
#define WINNOW_ENGINE_RUNNER_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/device_cache.h"
#include "cache/host_pool.h"
#include "engine/hidden_store.h"
#include "engine/layerwise_prompts.h"
#include "engine/prompt_scorer.h"
#include "engine/read_watch.h"
#include "engine/request_slots.h"
#include "engine/sampler.h"
#include "engine/selector_set.h"
#include "engine/step_plan.h"
#include "engine/step_tables.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "model/transformer.h"

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
  std::vector<BroughtPieces> brought;
};

// Owns the workspace of a step. Used by the engine's thread alone. Nothing is
// allocated on a device after Create.
class Runner {
 public:
  using SequenceOf = std::function<const Sequence&(SequenceId)>;

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

  // Makes room for the summaries of a sequence's first `num_tokens`.
  void GrowSummaries(int selector, SequenceId id, int num_tokens) {
    selectors_.Grow(*queue_, selector, id, num_tokens);
  }
  // Runs the plan to its end. REQUIRES: `kv` owns pages for all its tokens, and
  // the selectors segments. Fails where the device does.
  Result<StepOutput> Run(const StepPlan& plan, const KvCache& kv,
                         const SequenceOf& sequence_of);

  // Moves pages between the tiers, before all that comes later: in the device's
  // memory and a host's pool, or between two of these.
  void CopyTiers(const HostPool& host, std::span<const TierCopy> copies) {
    host.Apply(*queue_, copies);
  }
  void CopyPages(const HostPool& from, const HostPool& to,
                 std::span<const HostCopy> copies) {
    from.CopyTo(*queue_, to, copies);
  }
  // Waits for all that has been enqueued, where no step does.
  Status Drain();
  // Copies pages, before the step that writes into the copies.
  void CopyPages(std::span<const ExtentCopy> copies);
  // Forgets a sequence that ends between layer ranges.
  void Forget(SequenceId id);

 private:
  // Items of one layer range, layerwise or not, their sequences, and their
  // tables' views.
  struct Group {
    std::span<const StepItem> items;
    std::vector<const Sequence*> sequences;  // as items
    std::vector<const Sequence*> sampling;   // those whose item samples
    std::vector<ScoredRow> scored;
    // Rows among which all generated ones are; 0 and 0 where there is none.
    int first_generated_row = 0;
    int end_generated_row = 0;
    ForwardArgs args;

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
  void GatherRope(Group& group);
  void GatherSelection(Group& group);
  void GatherWatched(Group& group);
  Status RunGroup(Group& group, StepOutput* output);
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
  std::unique_ptr<Queue> queue_;
  std::optional<Activations> activations_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<PromptScorer> scorer_;  // null: nobody asks
  std::optional<HiddenStore> store_;      // where plans may split the layers
  std::unique_ptr<ReadWatch> watch_;      // null: nobody may
  Buffer hidden_;                         // f32 [max_rows, hidden]
  // With selectors: f32 [max_rows] each, on the device and on the host.
  Buffer shares_, host_shares_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUNNER_H_
