// What sequences have together.
#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace winnow {

void KvCache::Share(SequenceId parent, SequenceId child, int num_tokens) {
  Open(child);
  const PageTable& of_parent = TableOf(parent);
  CHECK(num_tokens % page_tokens_ == 0 && num_tokens >= 0 &&
            num_tokens <= of_parent.num_sealed() &&
            std::ssize(of_parent.far_pages()) == 0,
        "parent={} num_tokens={} num_sealed={} far_pages={}", parent.value(),
        num_tokens, of_parent.num_sealed(), of_parent.far_pages().size());
  const auto pages =
      of_parent.pages().first(static_cast<size_t>(num_tokens / page_tokens_));
  Hold(pages);
  PageTable& table = TableOf(child);
  table.Grow(num_tokens, pages);
  table.Seal(num_tokens);
}

std::vector<SequenceId> KvCache::sequences() const {
  std::vector<SequenceId> ids;
  for (const auto& [sequence, table] : tables_) ids.push_back(sequence);
  return ids;
}

int64_t KvCache::NumRepeated() const {
  std::vector<KvBlockId> shared;  // an entry a holder
  for (const auto& [sequence, table] : tables_) {
    const auto num_full =
        static_cast<size_t>(table.num_tokens() / page_tokens_);
    for (const KvBlockId kv_block : table.pages().first(num_full)) {
      if (kv_block == kNoKvBlock || pool_.num_references(kv_block) == 1)
        continue;
      shared.push_back(kv_block);
    }
  }
  std::ranges::sort(shared);
  // clang 14, which the fuzzers are built with, knows no std::ranges::unique.
  const auto repeated = std::unique(shared.begin(), shared.end());
  return std::distance(repeated, shared.end());
}

}  // namespace winnow
