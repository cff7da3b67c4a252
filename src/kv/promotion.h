// Which running sequences get pages back that they have given up, where the
// device has room again: a pure function from a snapshot to a decision.
#ifndef WINNOW_KV_PROMOTION_H_
#define WINNOW_KV_PROMOTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace winnow {

// What it takes to make all pages of a sequence whole, and what it spares.
struct PromotionOffer {
  SequenceId sequence;
  int64_t num_pages = 0;           // that it has on the host
  int64_t num_slot_kv_blocks = 0;  // that come free with the last of these
  double copied_bytes = 0;  // of those of them that are not on the device too
  double missed_bytes = 0;  // expected over the link until its end, as it is

  int64_t cost() const { return num_pages - num_slot_kv_blocks; }
  double saved_bytes() const { return missed_bytes - copied_bytes; }
};

struct PromotionLimits {
  int64_t num_spare = 0;  // KV blocks that are promised to nobody
  // That are copied before one step: the last of them may come with as many
  // pages more as it has KV blocks of slots.
  int64_t max_pages = 0;
};

// The first so many of the pages that a sequence has on the host.
struct Promotion {
  SequenceId sequence;
  int64_t num_pages = 0;

  friend bool operator==(const Promotion&, const Promotion&) = default;
};

// Who saves most comes first, of equals the one that stands first in `offers`;
// nobody who would save nothing, and nobody for whom all his pages would not
// fit: half a way spares no slots. One that takes more than a step holds no
// more in between than in the end: it keeps as many pages on the host as it has
// KV blocks of slots, until all come.
std::vector<Promotion> ChoosePromotions(std::span<const PromotionOffer> offers,
                                        const PromotionLimits& limits);

// How many pages come where `num_wanted` are to, as is said there.
int64_t PagesToPromote(const PromotionOffer& offer, int64_t num_wanted);

}  // namespace winnow

#endif  // WINNOW_KV_PROMOTION_H_
