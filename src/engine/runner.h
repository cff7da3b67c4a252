// Carries out a StepPlan: gather, forward, sample.
#ifndef WINNOW_ENGINE_RUNNER_H_
#define WINNOW_ENGINE_RUNNER_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/device_cache.h"
#include "engine/hidden_store.h"
#include "engine/sampler.h"
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
  bool layer_ranges = false;  // plans may split the layers
};

// Owns the workspace of a step. Used by the engine's thread alone. Nothing is
// allocated on a device after Create.
class Runner {
 public:
  using SequenceOf = std::function<const Sequence&(SequenceId)>;

  // REQUIRES: backend, model and cache outlive the runner.
  static Result<std::unique_ptr<Runner>> Create(Backend& backend,
                                                const Model& model,
                                                DeviceCache& cache,
                                                const RunnerOptions& options);

  // Runs the plan to its end. REQUIRES: `kv` owns pages for all its tokens.
  // Fails where the device does.
  Result<std::vector<DrawnToken>> Run(const StepPlan& plan, const KvCache& kv,
                                      const SequenceOf& sequence_of);

  // Copies pages, before the step that writes into the copies.
  void CopyPages(std::span<const ExtentCopy> copies);
  // Forgets a sequence that ends between layer ranges.
  void Forget(SequenceId id);

 private:
  // Items of one layer range, their sequences, and their tables' views.
  struct Group {
    std::span<const StepItem> items;
    std::vector<const Sequence*> sequences;  // as items
    std::vector<const Sequence*> sampling;   // those whose item samples
    ForwardArgs args;
  };

  Runner(Backend& backend, const Model& model, DeviceCache& cache,
         const RunnerOptions& options, StepTables tables);
  Status AllocateWorkspace();
  Group Gather(std::span<const StepItem> items, const KvCache& kv,
               const SequenceOf& sequence_of);
  void GatherRows(Group& group);
  void GatherRope(Group& group);
  Status RunGroup(Group& group, std::vector<DrawnToken>* drawn);
  void RestoreHidden(const Group& group);
  void StoreHidden(const Group& group);

  Backend& backend_;
  const Model& model_;
  DeviceCache& cache_;
  const RunnerOptions options_;
  StepTables tables_;
  std::unique_ptr<Queue> queue_;
  std::optional<Activations> activations_;
  std::unique_ptr<Sampler> sampler_;
  std::optional<HiddenStore> store_;  // where plans may split the layers
  Buffer hidden_;                     // f32 [max_rows, hidden]
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUNNER_H_
