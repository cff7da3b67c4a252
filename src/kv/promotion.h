// Chooses running sequences whose offloaded pages return when the device has
// room again. A pure function from a snapshot to a decision.
#ifndef WINNOW_KV_PROMOTION_H_
#define WINNOW_KV_PROMOTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace winnow {

// The cost of making all pages of one sequence resident, and the saving.
struct PromotionOffer {
  SequenceId sequence;
  int64_t num_pages = 0;  // offloaded pages
  // KV blocks of cache slots, which come free with the last of these pages.
  int64_t num_slot_kv_blocks = 0;
  double copied_bytes = 0;  // of offloaded pages without a copy on the device
  // Bytes expected over the link until the end if nothing returns.
  double missed_bytes = 0;

  int64_t cost() const { return num_pages - num_slot_kv_blocks; }
  double saved_bytes() const { return missed_bytes - copied_bytes; }
};

struct PromotionLimits {
  int64_t num_spare = 0;  // KV blocks that are not promised
  // Pages to copy before one step. The last copy of a sequence may add as many
  // pages as it has KV blocks of cache slots.
  int64_t max_pages = 0;
};

// The first `num_pages` offloaded pages of a sequence return.
struct Promotion {
  SequenceId sequence;
  int64_t num_pages = 0;

  friend bool operator==(const Promotion&, const Promotion&) = default;
};

// The greatest saving goes first; of equals, the first in `offers`. Skips a
// sequence that would save nothing, and one whose pages do not all fit, because
// a partial return frees no cache slots. A return that takes several steps
// needs no more KV blocks in between than at its end. Until the last step the
// sequence keeps as many offloaded pages as it has KV blocks of cache slots.
std::vector<Promotion> ChoosePromotions(std::span<const PromotionOffer> offers,
                                        const PromotionLimits& limits);

// The number of pages that return if `num_wanted` should, by the rule of
// ChoosePromotions.
int64_t PagesToPromote(const PromotionOffer& offer, int64_t num_wanted);

}  // namespace winnow

#endif  // WINNOW_KV_PROMOTION_H_
