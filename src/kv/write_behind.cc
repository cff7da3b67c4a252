#include "kv/write_behind.h"

#include <algorithm>

namespace winnow {

int64_t NumToBeThere(const WriteBehindLimits& limits, int64_t num_free) {
  return std::max<int64_t>(0, limits.watermark - num_free);
}

std::vector<KvBlockId> ChooseWrites(const WriteBehindLimits& limits,
                                    const WriteBehindInput& input) {
  const int64_t num_checked = std::min<int64_t>(
      NumToBeThere(limits, input.num_free), std::ssize(input.leaving));
  const int64_t most = std::min(limits.max_pages, input.num_free_host);
  std::vector<KvBlockId> chosen;
  for (int64_t i = 0; i < num_checked && std::ssize(chosen) < most; ++i) {
    const PagePlaces& page = input.leaving[static_cast<size_t>(i)];
    if (!page.host) chosen.push_back(*page.device);
  }
  return chosen;
}

}  // namespace winnow
