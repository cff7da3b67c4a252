#include "kv/promotion.h"

#include <algorithm>

namespace winnow {

int64_t PagesToPromote(const PromotionOffer& offer, int64_t num_wanted) {
  if (num_wanted >= offer.num_pages) return offer.num_pages;
  return std::clamp<int64_t>(offer.cost(), 0, num_wanted);
}

std::vector<Promotion> ChoosePromotions(std::span<const PromotionOffer> offers,
                                        const PromotionLimits& limits) {
  std::vector<PromotionOffer> sorted(offers.begin(), offers.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           &PromotionOffer::saved_bytes);
  int64_t num_spare = limits.num_spare, num_left = limits.max_pages;
  std::vector<Promotion> chosen;
  for (const PromotionOffer& offer : sorted) {
    if (offer.saved_bytes() <= 0) break;
    if (num_left <= 0) break;
    if (offer.cost() > num_spare) continue;
    num_spare -= offer.cost();
    const int64_t num_pages =
        PagesToPromote(offer, std::max(num_left, offer.num_slot_kv_blocks));
    chosen.push_back({offer.sequence, num_pages});
    num_left -= num_pages;
  }
  return chosen;
}

}  // namespace winnow
