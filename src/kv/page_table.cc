#include "kv/page_table.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace winnow {

void PageTable::Grow(int num_added, std::span<const KvBlockId> fresh) {
  CHECK(num_added >= 0 &&
            num_added <= std::numeric_limits<int>::max() - num_tokens_,
        "num_added={} num_tokens={}", num_added, num_tokens_);
  CHECK(static_cast<int64_t>(fresh.size()) ==
            NewPages(num_tokens_, num_added, page_tokens_),
        "{} KV blocks for {} more tokens than {}", fresh.size(), num_added,
        num_tokens_);
  pages_.insert(pages_.end(), fresh.begin(), fresh.end());
  num_tokens_ += num_added;
}

void PageTable::ReplaceLastPage(KvBlockId kv_block) {
  CHECK(!pages_.empty());
  pages_.back() = kv_block;
}

void PageTable::MoveToHost(size_t page, KvBlockId host) {
  const int64_t end = (static_cast<int64_t>(page) + 1) * page_tokens_;
  CHECK(end <= num_sealed_ && pages_[page] != kNoKvBlock,
        "page={} num_sealed={}", page, num_sealed_);
  pages_[page] = kNoKvBlock;
  if (far_pages_.size() <= page) far_pages_.resize(page + 1, kNoKvBlock);
  far_pages_[page] = host;
}

void PageTable::MoveToDevice(size_t page, KvBlockId kv_block) {
  CHECK(page < far_pages_.size() && pages_[page] == kNoKvBlock,
        "page={} far_pages={}", page, far_pages_.size());
  pages_[page] = kv_block;
  far_pages_[page] = kNoKvBlock;
  while (!far_pages_.empty() && far_pages_.back() == kNoKvBlock) {
    far_pages_.pop_back();
  }
}

void PageTable::TakeOver(int num_tokens, std::span<const KvBlockId> hosts,
                         std::span<const KvBlockId> whole) {
  CHECK(pages_.empty() && std::ssize(hosts) * page_tokens_ <= num_tokens,
        "pages={} host pages={} num_tokens={}", pages_.size(), hosts.size(),
        num_tokens);
  far_pages_.assign(hosts.begin(), hosts.end());
  std::vector<KvBlockId> pages(hosts.size(), kNoKvBlock);
  pages.insert(pages.end(), whole.begin(), whole.end());
  Grow(num_tokens, pages);
  Seal(num_tokens);
}

void PageTable::Truncate(int num_tokens) {
  CHECK(num_tokens >= 0 && num_tokens <= num_tokens_, "num_tokens={} of {}",
        num_tokens, num_tokens_);
  if (num_tokens == 0) far_pages_.clear();
  CHECK(std::ssize(far_pages_) * page_tokens_ <= num_tokens,
        "num_tokens={} far_pages={}", num_tokens, far_pages_.size());
  pages_.resize(static_cast<size_t>(PagesFor(num_tokens, page_tokens_)));
  num_tokens_ = num_tokens;
  num_sealed_ = std::min(num_sealed_, num_tokens);
}

void PageTable::Seal(int num_tokens) {
  CHECK(num_sealed_ <= num_tokens && num_tokens <= num_tokens_,
        "num_tokens={} num_sealed={} owned={}", num_tokens, num_sealed_,
        num_tokens_);
  num_sealed_ = num_tokens;
}

}  // namespace winnow
