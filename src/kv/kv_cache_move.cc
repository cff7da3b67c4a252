// Pages of sequences that go on leave the device, and come back.
#include <array>
#include <utility>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace winnow {

// Those from `page` on that the index knows: of a path, so one after another.
std::vector<ExtentId> KvCache::IndexedFrom(SequenceId sequence,
                                           int64_t page) const {
  std::vector<ExtentId> indexed;
  for (const ExtentId extent :
       pages(sequence).subspan(static_cast<size_t>(page))) {
    if (extent == kNoExtent || !prefixes_.Holds(extent)) break;
    indexed.push_back(extent);
  }
  return indexed;
}

// A page that stays in use below one that is idle could never be had: so the
// index must be able to forget those that stay.
PageRange KvCache::Movable(SequenceId sequence, int64_t end_page) const {
  const PageTable& table = TableOf(sequence);
  CHECK(end_page * page_tokens_ <= table.num_sealed(),
        "sequence={} end_page={} num_sealed={}", sequence.value(), end_page,
        table.num_sealed());
  PageRange range = {.first = end_page, .end = end_page};
  if (!prefixes_.CanWithdraw(IndexedFrom(sequence, end_page))) return range;
  for (int64_t page = end_page - 1; page >= 0; --page) {
    const ExtentId extent = table.pages()[static_cast<size_t>(page)];
    if (extent == kNoExtent) continue;
    const uint32_t own = prefixes_.Holds(extent) ? 2 : 1;
    if (pool_.num_references(extent) > own) break;
    range.first = page;
    ++range.num_whole;
  }
  return range;
}

int64_t KvCache::MoveToHost(SequenceId sequence, const PageRange& range) {
  CheckNoReservation();
  CHECK(range == Movable(sequence, range.end) &&
            range.num_whole <= num_available_host_pages(),
        "sequence={} first={} end={} num_whole={} available={}",
        sequence.value(), range.first, range.end, range.num_whole,
        num_available_host_pages());
  for (const auto& [device, host] :
       prefixes_.Withdraw(IndexedFrom(sequence, range.end))) {
    if (device) pool_.Release(*device);
    if (host) host_pool_.Release(*host);
  }
  PageTable& table = TableOf(sequence);
  std::vector<std::pair<size_t, std::optional<ExtentId>>> moves;
  for (auto page = static_cast<size_t>(range.first);
       std::ssize(moves) < range.num_whole; ++page) {
    const ExtentId extent = table.pages()[page];
    if (extent == kNoExtent) continue;
    // What is there is held before room is made for what is not.
    const std::optional<ExtentId> host = prefixes_.HostOf(extent);
    if (host) host_pool_.Share(*host);
    moves.emplace_back(page, host);
  }
  std::vector<ExtentId> left;
  int64_t num_copied = 0;
  for (auto& [page, host] : moves) {
    const ExtentId extent = table.pages()[page];
    left.push_back(extent);
    if (host) continue;
    host = TakeHostExtent();
    CHECK(host.has_value(), "sequence={} page={}", sequence.value(), page);
    tier_copies_.push_back({TierCopy::Direction::kToHost, extent, *host});
    ++num_copied;
  }
  for (const auto& [page, host] : moves) {
    const ExtentId extent = table.pages()[page];
    if (prefixes_.Holds(extent) && !prefixes_.HostOf(extent)) {
      prefixes_.AddHost(extent, *host);
      host_pool_.Share(*host);
    }
    table.MoveToHost(page, *host);
    lingering_[sequence].Leave(static_cast<int64_t>(page), extent,
                               pool_.version(extent), table.num_tokens());
  }
  num_far_pages_ += range.num_whole;
  LetGo(left);
  return num_copied;
}

std::vector<LingeringPage> KvCache::LingeringPagesOf(
    SequenceId sequence) const {
  const auto found = lingering_.find(sequence);
  if (found == lingering_.end()) return {};
  return found->second.StillThere(pool_, num_tokens(sequence));
}

std::pair<ExtentId, bool> KvCache::BringBack(std::optional<ExtentId> above,
                                             ExtentId host) {
  // A page of the index is in use only where those above it are.
  const std::optional<PagePlaces> known = prefixes_.FindBelow(above, host);
  if (known && known->device) {
    Hold(std::array{*known->device});
    return {*known->device, false};
  }
  // In use before room is made: that spares it.
  if (known) prefixes_.PinHost(std::array{host});
  const ExtentId extent = TakeExtent();
  if (known) {
    pool_.Share(extent);  // The index holds it too.
    prefixes_.Promote(host, extent);
  }
  tier_copies_.push_back({TierCopy::Direction::kToDevice, extent, host});
  return {extent, true};
}

int64_t KvCache::MoveToDevice(SequenceId sequence, int64_t num_pages) {
  CheckNoReservation();
  CHECK(num_pages <= NumFar(sequence) && num_pages <= num_free_pages(),
        "sequence={} num_pages={} of {} num_free={}", sequence.value(),
        num_pages, NumFar(sequence), num_free_pages());
  PageTable& table = TableOf(sequence);
  int64_t num_copied = 0;
  for (size_t page = 0; num_pages > 0; ++page) {
    if (table.pages()[page] != kNoExtent) continue;
    const ExtentId host = table.far_pages()[page];
    // All pages before the first that is far are whole.
    std::optional<ExtentId> above;
    if (page > 0) above = table.pages()[page - 1];
    const auto [extent, is_copied] = BringBack(above, host);
    table.MoveToDevice(page, extent);
    lingering_[sequence].Forget(static_cast<int64_t>(page));
    host_pool_.Release(host);
    num_copied += is_copied;
    --num_far_pages_;
    --num_pages;
  }
  return num_copied;
}

// Behind the first that is copied all are: no page of the index is on the
// device where the one above it is not.
int64_t KvCache::NumToCopy(SequenceId sequence) const {
  const PageTable& table = TableOf(sequence);
  int64_t num_left = NumFar(sequence);
  std::optional<ExtentId> above;
  for (size_t page = 0; num_left > 0; ++page) {
    ExtentId extent = table.pages()[page];
    if (extent == kNoExtent) {
      const std::optional<PagePlaces> known =
          prefixes_.FindBelow(above, table.far_pages()[page]);
      if (!known || !known->device) break;
      extent = *known->device;
      --num_left;
    }
    above = extent;
  }
  return num_left;
}

void KvCache::EnterFarPages(SequenceId sequence, const PrefixPath& path,
                            std::span<const PageKind> kinds) {
  const std::span<const ExtentId> far = TableOf(sequence).far_pages();
  if (far.empty()) return;
  std::vector<ExtentId> hosts(far.begin(), far.end());
  hosts.resize(kinds.size(), kNoExtent);
  for (const ExtentId host : prefixes_.EnterHost(path, kinds, hosts)) {
    host_pool_.Share(host);
  }
}

std::optional<ExtentId> KvCache::Lend() {
  CheckNoReservation();
  if (num_free_pages() == 0) return std::nullopt;
  const ExtentId extent = TakeExtent();
  lent_.insert(extent);
  return extent;
}

void KvCache::GiveBack(ExtentId extent) {
  CheckNoReservation();
  CHECK(lent_.erase(extent) == 1, "extent={} is not lent", extent.value());
  pool_.Release(extent);
}

}  // namespace winnow
