// What sequences use before they have pages: extents that are lent to them.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace winnow {

// What is there is held before room is made for what is not.
std::vector<ExtentId> KvCache::HoldOnHost(const PrefixHit& hit) {
  std::vector<ExtentId> hosts;
  for (const ExtentId extent : hit.extents) {
    const std::optional<ExtentId> host = prefixes_.HostOf(extent);
    if (host) host_pool_.Share(*host);
    hosts.push_back(host.value_or(kNoExtent));
  }
  for (const ExtentId host : hit.host_extents) {
    host_pool_.Share(host);
    hosts.push_back(host);
  }
  num_far_pages_ += std::ssize(hosts);
  for (size_t page = 0; page < hit.extents.size(); ++page) {
    if (hosts[page] != kNoExtent) continue;
    // Its own is counted already.
    --num_far_pages_;
    const std::optional<ExtentId> host = TakeHostExtent();
    ++num_far_pages_;
    CHECK(host.has_value(), "page={} of {}", page, hit.kinds.size());
    hosts[page] = *host;
    const ExtentId extent = hit.extents[page];
    tier_copies_.push_back({TierCopy::Direction::kToHost, extent, *host});
    prefixes_.AddHost(extent, *host);
    host_pool_.Share(*host);
  }
  // They have been used.
  prefixes_.Pin(hit.extents);
  prefixes_.Unpin(hit.extents);
  return hosts;
}

int64_t KvCache::LendTo(SequenceId sequence, int64_t num_extents,
                        int64_t num_hosts, const PrefixHit& hit) {
  CheckNoReservation();
  CHECK(num_tokens(sequence) == 0 && num_extents <= num_free_pages() &&
            num_hosts <= num_available_host_pages() &&
            std::ssize(hit.kinds) <= num_hosts,
        "sequence={} tokens={} extents={} of {} host extents={} of {}, {} of "
        "the index",
        sequence.value(), num_tokens(sequence), num_extents, num_free_pages(),
        num_hosts, num_available_host_pages(), hit.kinds.size());
  const auto [loan, is_first] = loans_.try_emplace(sequence);
  CHECK(is_first, "sequence={} has a loan", sequence.value());
  std::vector<ExtentId>& hosts = loan->second.hosts;
  const size_t num_decided = tier_copies_.size();
  hosts = HoldOnHost(hit);
  const auto num_copied =
      static_cast<int64_t>(tier_copies_.size() - num_decided);
  while (std::ssize(hosts) < num_hosts) {
    const std::optional<ExtentId> host = TakeHostExtent();
    CHECK(host.has_value(), "sequence={} has {} of {}", sequence.value(),
          hosts.size(), num_hosts);
    hosts.push_back(*host);
    ++num_far_pages_;
  }
  // After the host's: what leaves the device goes to what is left there.
  std::vector<ExtentId>& extents = loan->second.extents;
  while (std::ssize(extents) < num_extents) extents.push_back(TakeExtent());
  std::ranges::sort(extents);
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
  for (const ExtentId extent : loan->second.extents) pool_.Release(extent);
  for (const ExtentId host : loan->second.hosts) host_pool_.Release(host);
  num_far_pages_ -= std::ssize(loan->second.hosts);
  loans_.erase(loan);
}

void KvCache::TakeOver(SequenceId sequence, int num_tokens) {
  CheckNoReservation();
  PageLoan& loan = loans_.at(sequence);
  const int64_t num_far = std::ssize(loan.hosts);
  const int64_t num_whole = PagesFor(num_tokens, page_tokens_) - num_far;
  CHECK(num_far * page_tokens_ <= num_tokens &&
            num_whole <= std::ssize(loan.extents),
        "sequence={} num_tokens={} host extents={} extents={}",
        sequence.value(), num_tokens, num_far, loan.extents.size());
  const auto end_whole = loan.extents.begin() + num_whole;
  TableOf(sequence).TakeOver(num_tokens, loan.hosts,
                             {loan.extents.begin(), end_whole});
  // The table has these now; what is left goes back.
  loan.extents.erase(loan.extents.begin(), end_whole);
  loan.hosts.clear();
  EndLoan(sequence);
}

}  // namespace winnow
