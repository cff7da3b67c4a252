// The kinds of selectors, each defined in a file of sparse/selectors/.
#ifndef WINNOW_SPARSE_SPEC_KINDS_H_
#define WINNOW_SPARSE_SPEC_KINDS_H_

#include "sparse/spec/selector.h"

namespace winnow {

extern const SelectorKind kArkValeSelector;
extern const SelectorKind kClusterKvSelector;
extern const SelectorKind kDenseSelector;
extern const SelectorKind kInfLlmV2Selector;
extern const SelectorKind kMeanSelector;
extern const SelectorKind kMobaSelector;
extern const SelectorKind kOracleSelector;
extern const SelectorKind kQuestSelector;
extern const SelectorKind kRetroInferSelector;
extern const SelectorKind kSeerAttentionSelector;
extern const SelectorKind kShadowKvSelector;
extern const SelectorKind kSnapKvSelector;
extern const SelectorKind kTidalSelector;
extern const SelectorKind kWindowSelector;

}  // namespace winnow

#endif  // WINNOW_SPARSE_SPEC_KINDS_H_
