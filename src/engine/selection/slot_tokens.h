// How large the slots are that a selector's requests may have.
#ifndef WINNOW_ENGINE_SELECTION_SLOT_TOKENS_H_
#define WINNOW_ENGINE_SELECTION_SLOT_TOKENS_H_

#include <optional>

#include "sparse/spec/selector.h"

namespace winnow {

// Tokens a slot: as many as the smallest block that the selector chooses, 8 at
// least. None where all pages of its requests are whole: one that reads
// everything, or scores the keys themselves.
std::optional<int> SlotTokensOf(const Selector& selector);

}  // namespace winnow

#endif  // WINNOW_ENGINE_SELECTION_SLOT_TOKENS_H_
