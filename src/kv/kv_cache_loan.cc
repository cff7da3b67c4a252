// What sequences use before they have pages: KV blocks that are lent to them.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace winnow {

// What is there is held before room is made for what is not.
std::vector<KvBlockId> KvCache::HoldOnHost(const PrefixHit& hit) {
  std::vector<KvBlockId> hosts;
  for (const KvBlockId kv_block : hit.kv_blocks) {
    const std::optional<KvBlockId> host = prefixes_.HostOf(kv_block);
    if (host) host_pool_.Share(*host);
    hosts.push_back(host.value_or(kNoKvBlock));
  }
  for (const KvBlockId host : hit.host_kv_blocks) {
    host_pool_.Share(host);
    hosts.push_back(host);
  }
  num_far_pages_ += std::ssize(hosts);
  for (size_t page = 0; page < hit.kv_blocks.size(); ++page) {
    if (hosts[page] != kNoKvBlock) continue;
    // Its own is counted already.
    --num_far_pages_;
    const std::optional<KvBlockId> host = TakeHostKvBlock();
    ++num_far_pages_;
    CHECK(host.has_value(), "page={} of {}", page, hit.kinds.size());
    hosts[page] = *host;
    const KvBlockId kv_block = hit.kv_blocks[page];
    tier_copies_.push_back({TierCopy::Direction::kToHost, kv_block, *host});
    prefixes_.AddHost(kv_block, *host);
    host_pool_.Share(*host);
  }
  // They have been used.
  prefixes_.Pin(hit.kv_blocks);
  prefixes_.Unpin(hit.kv_blocks);
  return hosts;
}

int64_t KvCache::LendTo(SequenceId sequence, int64_t num_kv_blocks,
                        int64_t num_hosts, const PrefixHit& hit) {
  CheckNoReservation();
  CHECK(
      num_tokens(sequence) == 0 && num_kv_blocks <= num_free_pages() &&
          num_hosts <= num_available_host_pages() &&
          std::ssize(hit.kinds) <= num_hosts,
      "sequence={} tokens={} KV blocks={} of {} host KV blocks={} of {}, {} of "
      "the index",
      sequence.value(), num_tokens(sequence), num_kv_blocks, num_free_pages(),
      num_hosts, num_available_host_pages(), hit.kinds.size());
  const auto [loan, is_first] = loans_.try_emplace(sequence);
  CHECK(is_first, "sequence={} has a loan", sequence.value());
  std::vector<KvBlockId>& hosts = loan->second.hosts;
  const size_t num_decided = tier_copies_.size();
  hosts = HoldOnHost(hit);
  const auto num_copied =
      static_cast<int64_t>(tier_copies_.size() - num_decided);
  while (std::ssize(hosts) < num_hosts) {
    const std::optional<KvBlockId> host = TakeHostKvBlock();
    CHECK(host.has_value(), "sequence={} has {} of {}", sequence.value(),
          hosts.size(), num_hosts);
    hosts.push_back(*host);
    ++num_far_pages_;
  }
  // After the host's: what leaves the device goes to what is left there.
  std::vector<KvBlockId>& kv_blocks = loan->second.kv_blocks;
  while (std::ssize(kv_blocks) < num_kv_blocks)
    kv_blocks.push_back(TakeKvBlock());
  std::ranges::sort(kv_blocks);
  return num_copied;
}

const PageLoan& KvCache::loan(SequenceId sequence) const {
  const auto found = loans_.find(sequence);
  CHECK(found != loans_.end(), "sequence={} has no loan", sequence.value());
  return found->second;
}

void KvCache::EndLoan(SequenceId sequence) {
  const auto loan = loans_.find(sequence);
  if (loan == loans_.end()) return;
  for (const KvBlockId kv_block : loan->second.kv_blocks)
    pool_.Release(kv_block);
  for (const KvBlockId host : loan->second.hosts) host_pool_.Release(host);
  num_far_pages_ -= std::ssize(loan->second.hosts);
  loans_.erase(loan);
}

void KvCache::TakeOver(SequenceId sequence, int num_tokens) {
  CheckNoReservation();
  PageLoan& loan = loans_.at(sequence);
  const int64_t num_far = std::ssize(loan.hosts);
  const int64_t num_whole = PagesFor(num_tokens, page_tokens_) - num_far;
  CHECK(num_far * page_tokens_ <= num_tokens &&
            num_whole <= std::ssize(loan.kv_blocks),
        "sequence={} num_tokens={} host KV blocks={} KV blocks={}",
        sequence.value(), num_tokens, num_far, loan.kv_blocks.size());
  const auto end_whole = loan.kv_blocks.begin() + num_whole;
  TableOf(sequence).TakeOver(num_tokens, loan.hosts,
                             {loan.kv_blocks.begin(), end_whole});
  // The table has these now; what is left goes back.
  loan.kv_blocks.erase(loan.kv_blocks.begin(), end_whole);
  loan.hosts.clear();
  EndLoan(sequence);
}

}  // namespace winnow
