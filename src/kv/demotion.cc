#include "kv/demotion.h"

#include <algorithm>

namespace winnow {

std::vector<SequenceId> ChooseDemotions(std::span<const DemotionOffer> offers,
                                        int64_t num_wanted,
                                        int64_t num_host_pages) {
  std::vector<DemotionOffer> sorted(offers.rbegin(), offers.rend());
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           &DemotionOffer::gain);
  std::vector<SequenceId> chosen;
  for (const DemotionOffer& offer : sorted) {
    if (num_wanted <= 0 || offer.gain() <= 0) break;
    if (offer.num_pages > num_host_pages) continue;
    chosen.push_back(offer.sequence);
    num_wanted -= offer.gain();
    num_host_pages -= offer.num_pages;
  }
  if (num_wanted > 0) chosen.clear();
  return chosen;
}

}  // namespace winnow
