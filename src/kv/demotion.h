// Which running sequences give up whole pages where the device lacks room: a
// pure function from a snapshot to a decision.
#ifndef WINNOW_KV_DEMOTION_H_
#define WINNOW_KV_DEMOTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace winnow {

// What a sequence would do for others.
struct DemotionOffer {
  SequenceId sequence;
  int64_t num_pages = 0;           // that would leave, for the host
  int64_t num_slot_kv_blocks = 0;  // that it would get for its slots

  int64_t gain() const { return num_pages - num_slot_kv_blocks; }
};

// Who gives up pages, so that at least `num_wanted` KV blocks come free: those
// who gain most first, of these the one that stands last in `offers`. Each is
// taken whole or not at all. Nobody whose pages the host, which has room for
// `num_host_pages`, cannot take beside those of the others, nobody who gains
// nothing; and nobody at all where that does not suffice.
std::vector<SequenceId> ChooseDemotions(std::span<const DemotionOffer> offers,
                                        int64_t num_wanted,
                                        int64_t num_host_pages);

}  // namespace winnow

#endif  // WINNOW_KV_DEMOTION_H_
