// CountReads: counts for a sequence how much a step's rows have read.
#ifndef WINNOW_ENGINE_RUN_READ_COUNTS_H_
#define WINNOW_ENGINE_RUN_READ_COUNTS_H_

#include <span>

#include "engine/request/sequence.h"
#include "engine/schedule/step_plan.h"
#include "engine/selection/selector_set.h"

namespace winnow {

// Counts what the item's decode rows have read, in the item's layers. Where no
// selector chooses, a row reads all that the layer's window shows. `shares`: of
// the item's rows, in layers where one chooses (StepOutput::read_shares).
void CountReads(const ModelConfig& config, const SelectorSet& selectors,
                const StepItem& item, std::span<const float> shares,
                Sequence& sequence);

}  // namespace winnow

#endif  // WINNOW_ENGINE_RUN_READ_COUNTS_H_
