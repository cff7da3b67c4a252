// Pages of sequences that go on leave the device, and come back.
#include <array>
#include <utility>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace winnow {

// Those from `page` on that the index knows: of a path, so one after another.
std::vector<KvBlockId> KvCache::IndexedFrom(SequenceId sequence,
                                            int64_t page) const {
  std::vector<KvBlockId> indexed;
  for (const KvBlockId kv_block :
       pages(sequence).subspan(static_cast<size_t>(page))) {
    if (kv_block == kNoKvBlock || !prefixes_.Holds(kv_block)) break;
    indexed.push_back(kv_block);
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
    const KvBlockId kv_block = table.pages()[static_cast<size_t>(page)];
    if (kv_block == kNoKvBlock) continue;
    const uint32_t own = prefixes_.Holds(kv_block) ? 2 : 1;
    if (pool_.num_references(kv_block) > own) break;
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
  std::vector<std::pair<size_t, std::optional<KvBlockId>>> moves;
  for (auto page = static_cast<size_t>(range.first);
       std::ssize(moves) < range.num_whole; ++page) {
    const KvBlockId kv_block = table.pages()[page];
    if (kv_block == kNoKvBlock) continue;
    // What is there is held before room is made for what is not.
    const std::optional<KvBlockId> host = prefixes_.HostOf(kv_block);
    if (host) host_pool_.Share(*host);
    moves.emplace_back(page, host);
  }
  std::vector<KvBlockId> left;
  int64_t num_copied = 0;
  for (auto& [page, host] : moves) {
    const KvBlockId kv_block = table.pages()[page];
    left.push_back(kv_block);
    if (host) continue;
    host = TakeHostKvBlock();
    CHECK(host.has_value(), "sequence={} page={}", sequence.value(), page);
    tier_copies_.push_back({TierCopy::Direction::kToHost, kv_block, *host});
    ++num_copied;
  }
  for (const auto& [page, host] : moves) {
    const KvBlockId kv_block = table.pages()[page];
    if (prefixes_.Holds(kv_block) && !prefixes_.HostOf(kv_block)) {
      prefixes_.AddHost(kv_block, *host);
      host_pool_.Share(*host);
    }
    table.MoveToHost(page, *host);
    reclaimable_[sequence].Leave(static_cast<int64_t>(page), kv_block,
                                 pool_.version(kv_block), table.num_tokens());
  }
  num_far_pages_ += range.num_whole;
  LetGo(left);
  return num_copied;
}

std::vector<ReclaimablePage> KvCache::ReclaimablePagesOf(
    SequenceId sequence) const {
  const auto found = reclaimable_.find(sequence);
  if (found == reclaimable_.end()) return {};
  return found->second.StillThere(pool_, num_tokens(sequence));
}

std::pair<KvBlockId, bool> KvCache::BringBack(std::optional<KvBlockId> above,
                                              KvBlockId host) {
  // A page of the index is in use only where those above it are.
  const std::optional<PagePlaces> known = prefixes_.FindBelow(above, host);
  if (known && known->device) {
    Hold(std::array{*known->device});
    return {*known->device, false};
  }
  // In use before room is made: that spares it.
  if (known) prefixes_.PinHost(std::array{host});
  const KvBlockId kv_block = TakeKvBlock();
  if (known) {
    pool_.Share(kv_block);  // The index holds it too.
    prefixes_.Promote(host, kv_block);
  }
  tier_copies_.push_back({TierCopy::Direction::kToDevice, kv_block, host});
  return {kv_block, true};
}

int64_t KvCache::MoveToDevice(SequenceId sequence, int64_t num_pages) {
  CheckNoReservation();
  CHECK(num_pages <= NumFar(sequence) && num_pages <= num_free_pages(),
        "sequence={} num_pages={} of {} num_free={}", sequence.value(),
        num_pages, NumFar(sequence), num_free_pages());
  PageTable& table = TableOf(sequence);
  int64_t num_copied = 0;
  for (size_t page = 0; num_pages > 0; ++page) {
    if (table.pages()[page] != kNoKvBlock) continue;
    const KvBlockId host = table.far_pages()[page];
    // All pages before the first that is far are whole.
    std::optional<KvBlockId> above;
    if (page > 0) above = table.pages()[page - 1];
    const auto [kv_block, is_copied] = BringBack(above, host);
    table.MoveToDevice(page, kv_block);
    reclaimable_[sequence].Forget(static_cast<int64_t>(page));
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
  std::optional<KvBlockId> above;
  for (size_t page = 0; num_left > 0; ++page) {
    KvBlockId kv_block = table.pages()[page];
    if (kv_block == kNoKvBlock) {
      const std::optional<PagePlaces> known =
          prefixes_.FindBelow(above, table.far_pages()[page]);
      if (!known || !known->device) break;
      kv_block = *known->device;
      --num_left;
    }
    above = kv_block;
  }
  return num_left;
}

void KvCache::EnterFarPages(SequenceId sequence, const PrefixPath& path,
                            std::span<const PageKind> kinds) {
  const std::span<const KvBlockId> far = TableOf(sequence).far_pages();
  if (far.empty()) return;
  std::vector<KvBlockId> hosts(far.begin(), far.end());
  hosts.resize(kinds.size(), kNoKvBlock);
  for (const KvBlockId host : prefixes_.EnterHost(path, kinds, hosts)) {
    host_pool_.Share(host);
  }
}

std::optional<KvBlockId> KvCache::Lend() {
  CheckNoReservation();
  if (num_free_pages() == 0) return std::nullopt;
  const KvBlockId kv_block = TakeKvBlock();
  lent_.insert(kv_block);
  return kv_block;
}

void KvCache::GiveBack(KvBlockId kv_block) {
  CheckNoReservation();
  CHECK(lent_.erase(kv_block) == 1, "KV block={} is not lent",
        kv_block.value());
  pool_.Release(kv_block);
}

}  // namespace winnow
