#include "kv/reclaimable_pages.h"

#include <algorithm>

namespace winnow {

void ReclaimablePages::Leave(int64_t page, KvBlockId kv_block, uint64_t version,
                             int num_tokens) {
  const auto first = std::ranges::find_if(left_, [&](const Left& left) {
    return num_tokens < left.num_tokens + kLingerTokens;
  });
  left_.erase(left_.begin(), first);
  left_.push_back({page, kv_block, version, num_tokens});
}

void ReclaimablePages::Forget(int64_t page) {
  std::erase_if(left_, [&](const Left& left) { return left.page == page; });
}

std::vector<ReclaimablePage> ReclaimablePages::StillThere(
    const KvBlockPool& pool, int num_tokens) const {
  std::vector<ReclaimablePage> there;
  for (const Left& left : left_) {
    if (num_tokens >= left.num_tokens + kLingerTokens) continue;
    if (pool.version(left.kv_block) != left.version) continue;
    there.push_back({left.page, left.kv_block});
  }
  return there;
}

}  // namespace winnow
