// One step, as plain data: enough, with the weights, to replay it.
#ifndef WINNOW_ENGINE_SCHEDULE_STEP_PLAN_H_
#define WINNOW_ENGINE_SCHEDULE_STEP_PLAN_H_

#include <string>
#include <vector>

#include "base/ids.h"
#include "kv/growth.h"

namespace winnow {

// Tokens [first_token, first_token + num_tokens) of one sequence through
// layers [first_layer, end_layer). There are no phases: a prompt's chunk and
// one generated token differ in num_tokens alone.
struct StepItem {
  SequenceId sequence;
  int first_token = 0;
  int num_tokens = 0;
  int first_layer = 0;
  int end_layer = 0;
  bool samples = false;  // the last token's logits are wanted, and drawn from
  // Of a prompt that goes through one layer whole before the next: its KV is
  // not in pages (engine/residency/layerwise_prompts.h).
  bool layerwise = false;
  // Tokens [first_scored, first_scored + num_scored) of these: what their rows
  // say of the token behind each is wanted.
  int first_scored = 0;
  int num_scored = 0;

  friend bool operator==(const StepItem&, const StepItem&) = default;
};

// Immutable once built. A sequence occurs at most once. Items with the same
// layer range stand together, and of these the layerwise ones.
struct StepPlan {
  std::vector<StepItem> items;

  bool empty() const { return items.empty(); }
  // Every item goes through all layers of so many, its KV in pages: then the
  // plan is one Forward.
  bool RunsWhole(int num_layers) const;
  const StepItem* Find(SequenceId sequence) const;  // null: it has none
  // What the step's items write in pages: later layers of a chunk write tokens
  // that the sequence owns already.
  std::vector<Growth> Growths() const;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

int NumRows(const StepPlan& plan);
// For people and tests: "3:[0,64)x[0,6)* 4:[12,13)x[0,6)*"; * samples, ?[0,9)
// scores these.
std::string ToString(const StepPlan& plan);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_STEP_PLAN_H_
