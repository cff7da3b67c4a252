// Chooses running sequences that move resident pages to the host when the
// device is short of KV blocks. A pure function from a snapshot to a decision.
#ifndef WINNOW_KV_DEMOTION_H_
#define WINNOW_KV_DEMOTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace winnow {

// The effect of moving one sequence's pages to the host.
struct DemotionOffer {
  SequenceId sequence;
  int64_t num_pages = 0;  // resident pages that would move to the host
  // KV blocks that the sequence would need for its cache slots.
  int64_t num_slot_kv_blocks = 0;

  int64_t gain() const { return num_pages - num_slot_kv_blocks; }
};

// Chooses sequences until at least `num_wanted` KV blocks come free. The
// largest gain goes first; of equal gains, the last in `offers`. A chosen
// sequence gives up all its pages of the offer. Skips a sequence that gains
// nothing, and one whose pages do not fit the `num_host_pages` of the host
// beside the pages chosen before. Returns nothing if the sum does not reach
// `num_wanted`.
std::vector<SequenceId> ChooseDemotions(std::span<const DemotionOffer> offers,
                                        int64_t num_wanted,
                                        int64_t num_host_pages);

}  // namespace winnow

#endif  // WINNOW_KV_DEMOTION_H_
