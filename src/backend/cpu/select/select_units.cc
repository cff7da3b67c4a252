#include "backend/cpu/select/select_units.h"

#include <algorithm>

namespace winnow {

int KvHeadsOfUnit(std::span<const KvHeadWork> works, int num_kv_heads,
                  int max_heads, int num_workers) {
  int64_t num_works = 0, cost = 0, most_cost = 0, most_scores = 0;
  for (const KvHeadWork& work : works) {
    num_works += work.cost > 0 ? 1 : 0;
    cost += work.cost;
    most_cost = std::max(most_cost, work.cost);
    most_scores = std::max(most_scores, work.num_scores);
  }
  if (num_works == 0) return 0;
  const int64_t total = cost * num_kv_heads;
  for (int heads = std::min(num_kv_heads, max_heads); heads > 0; --heads) {
    if (heads > 1 && heads * most_scores > kUnitScores) continue;
    const int64_t most = heads * most_cost;  // of a unit
    const int64_t num_units = num_works * ((num_kv_heads + heads - 1) / heads);
    const int64_t turns = (num_units + num_workers - 1) / num_workers;
    // No later than if all units cost the most and were taken in turns; nor
    // than where the last one begins when all others are under way. Times
    // num_workers.
    const int64_t end =
        std::min(turns * most * num_workers, total + (num_workers - 1) * most);
    if (16 * end <= 17 * total) return heads;
  }
  return 0;
}

}  // namespace winnow
