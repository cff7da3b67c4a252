#include "kv/lingering_pages.h"

#include <algorithm>

namespace winnow {

void LingeringPages::Leave(int64_t page, ExtentId extent, uint64_t version,
                           int num_tokens) {
  const auto first = std::ranges::find_if(left_, [&](const Left& left) {
    return num_tokens < left.num_tokens + kLingerTokens;
  });
  left_.erase(left_.begin(), first);
  left_.push_back({page, extent, version, num_tokens});
}

void LingeringPages::Forget(int64_t page) {
  std::erase_if(left_, [&](const Left& left) { return left.page == page; });
}

std::vector<LingeringPage> LingeringPages::StillThere(const ExtentPool& pool,
                                                      int num_tokens) const {
  std::vector<LingeringPage> there;
  for (const Left& left : left_) {
    if (num_tokens >= left.num_tokens + kLingerTokens) continue;
    if (pool.version(left.extent) != left.version) continue;
    there.push_back({left.page, left.extent});
  }
  return there;
}

}  // namespace winnow
