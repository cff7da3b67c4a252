#include "kv/kv_cache.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

PoolSnapshot SnapshotOf(const KvBlockPool& pool) {
  PoolSnapshot snapshot = {.num_free = pool.num_free(),
                           .num_in_use = pool.num_in_use()};
  for (uint32_t i = 0; i < pool.num_kv_blocks(); ++i) {
    snapshot.references.push_back(pool.num_references(KvBlockId(i)));
    snapshot.is_free.push_back(pool.is_free(KvBlockId(i)));
  }
  return snapshot;
}

}  // namespace

Reservation::Reservation(Reservation&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      steps_(std::move(other.steps_)),
      copies_(std::move(other.copies_)) {}

Reservation::~Reservation() {
  if (cache_ != nullptr) cache_->Undo(*this);
}

void Reservation::Commit() {
  CHECK(cache_ != nullptr);
  CHECK(cache_->tier_copies_.empty(), "{} copies between tiers are to be made",
        cache_->tier_copies_.size());
  cache_->reservation_is_open_ = false;
  cache_ = nullptr;
}

KvCache::KvCache(int64_t num_kv_blocks, int page_tokens,
                 int64_t num_host_kv_blocks)
    : page_tokens_(page_tokens),
      pool_(num_kv_blocks),
      host_pool_(num_host_kv_blocks),
      prefixes_(num_kv_blocks, ~uint64_t{0}, num_host_kv_blocks) {
  CHECK(num_host_kv_blocks == 0 || page_tokens == kPageTokens,
        "page_tokens={} num_host_kv_blocks={}", page_tokens,
        num_host_kv_blocks);
}

KvCache::~KvCache() {
  CheckNoReservation();
  CHECK(tables_.empty(), "{} sequences are still open, the first is {}",
        tables_.size(), tables_.begin()->first.value());
  CHECK(lent_.empty(), "{} KV blocks are still lent", lent_.size());
  while (const auto host = prefixes_.EvictHost()) host_pool_.Release(*host);
  while (const auto kv_block = prefixes_.Evict()) pool_.Release(*kv_block);
}

void KvCache::Open(SequenceId sequence) {
  CheckNoReservation();
  const bool is_fresh = tables_.try_emplace(sequence, page_tokens_).second;
  CHECK(is_fresh, "sequence={} is open", sequence.value());
}

void KvCache::Open(SequenceId sequence, const PrefixHit& hit) {
  Open(sequence);
  for (const KvBlockId kv_block : hit.kv_blocks) {
    CHECK(prefixes_.Holds(kv_block), "KV block={} is no page of the index",
          kv_block.value());
  }
  // All are in use before the first is taken: making room spares them.
  Hold(hit.kv_blocks);
  prefixes_.PinHost(hit.host_kv_blocks);
  std::vector<KvBlockId> pages = hit.kv_blocks;
  for (const KvBlockId host : hit.host_kv_blocks) {
    const KvBlockId kv_block = TakeKvBlock();
    pool_.Share(kv_block);  // The index holds it too.
    prefixes_.Promote(host, kv_block);
    tier_copies_.push_back({TierCopy::Direction::kToDevice, kv_block, host});
    pages.push_back(kv_block);
  }
  PageTable& table = TableOf(sequence);
  const int num_tokens = static_cast<int>(pages.size()) * page_tokens_;
  table.Grow(num_tokens, pages);
  table.Seal(num_tokens);
}

void KvCache::Fork(SequenceId parent, SequenceId child) {
  CheckNoReservation();
  const PageTable& table = TableOf(parent);
  CHECK(table.num_sealed() == table.num_tokens() && table.far_pages().empty(),
        "parent={} num_sealed={} num_tokens={} far_pages={}", parent.value(),
        table.num_sealed(), table.num_tokens(), table.far_pages().size());
  const bool is_fresh = tables_.try_emplace(child, table).second;
  CHECK(is_fresh, "sequence={} is open", child.value());
  Hold(table.pages());
}

void KvCache::Enter(SequenceId sequence, const PrefixPath& path,
                    std::span<const PageKind> kinds) {
  Enter(sequence, path, kinds, /*ends=*/false);
  EnterFarPages(sequence, path, kinds);
}

void KvCache::Enter(SequenceId sequence, const PrefixPath& path,
                    std::span<const PageKind> kinds, bool ends) {
  CheckNoReservation();
  const PageTable& table = TableOf(sequence);
  const int num_tokens = static_cast<int>(kinds.size()) * kPageTokens;
  CHECK(page_tokens_ == kPageTokens && num_tokens <= table.num_sealed(),
        "sequence={} enters {} tokens, num_sealed={} page_tokens={}",
        sequence.value(), num_tokens, table.num_sealed(), page_tokens_);
  // A page that a fork holds too would have a user that the index knows not.
  const auto pages = table.pages();
  size_t count = 0;
  const auto may_enter = [this](KvBlockId page) {
    return page != kNoKvBlock &&
           (prefixes_.Holds(page) || pool_.num_references(page) == 1);
  };
  while (count < kinds.size() && may_enter(pages[count])) ++count;
  for (const KvBlockId kv_block :
       prefixes_.Enter(path, kinds.first(count), pages.first(count), ends)) {
    pool_.Share(kv_block);
  }
}

void KvCache::Forget(const PrefixPath& path, std::span<const PageKind> kinds) {
  CheckNoReservation();
  for (const auto& [device, host] : prefixes_.Forget(path, kinds)) {
    if (device) pool_.Release(*device);
    if (host) host_pool_.Release(*host);
  }
}

std::optional<Reservation> KvCache::Reserve(std::span<const Growth> growths) {
  CheckNoReservation();
  if (!CanGrow(growths)) return std::nullopt;
  reservation_is_open_ = true;
  Reservation reservation(*this);
  for (const Growth& growth : growths) Grow(growth, reservation);
  return reservation;
}

PageNeed KvCache::Need(std::span<const Growth> growths) const {
  PageNeed need = {.num_needed = 0, .num_free = num_free_pages()};
  std::vector<SequenceId> named;
  std::vector<KvBlockId> shared;  // an entry a writer
  for (const auto& [sequence, num_tokens] : growths) {
    CHECK(num_tokens >= 0, "sequence={} num_tokens={}", sequence.value(),
          num_tokens);
    const PageTable& table = TableOf(sequence);
    named.push_back(sequence);
    need.num_needed += NewPages(table.num_tokens(), num_tokens, page_tokens_);
    if (num_tokens > 0 && WritesSharedPage(table)) {
      shared.push_back(table.pages().back());
    }
  }
  std::sort(named.begin(), named.end());
  const auto twice = std::adjacent_find(named.begin(), named.end());
  CHECK(twice == named.end(), "sequence={} is named twice", twice->value());
  // Where every owner of a page writes, the last one keeps it.
  std::sort(shared.begin(), shared.end());
  for (auto run = shared.begin(); run != shared.end();) {
    const auto end = std::upper_bound(run, shared.end(), *run);
    need.num_needed +=
        std::min<int64_t>(end - run, pool_.num_references(*run) - 1);
    run = end;
  }
  return need;
}

void KvCache::Seal(SequenceId sequence, int num_tokens) {
  CheckNoReservation();
  TableOf(sequence).Seal(num_tokens);
}

void KvCache::Truncate(SequenceId sequence, int num_tokens) {
  CheckNoReservation();
  PageTable& table = TableOf(sequence);
  CHECK(num_tokens >= 0 && num_tokens <= table.num_tokens(),
        "sequence={} num_tokens={} of {}", sequence.value(), num_tokens,
        table.num_tokens());
  const auto num_kept = static_cast<size_t>(PagesFor(num_tokens, page_tokens_));
  std::vector<KvBlockId> whole;
  for (size_t page = num_kept; page < table.pages().size(); ++page) {
    if (table.pages()[page] != kNoKvBlock) {
      whole.push_back(table.pages()[page]);
    } else {
      host_pool_.Release(table.far_pages()[page]);
      --num_far_pages_;
    }
  }
  LetGo(whole);
  table.Truncate(num_tokens);
  if (num_tokens == 0) reclaimable_.erase(sequence);
  // The last owner of a page writes it in place.
  if (table.num_open_tokens() > 0) pool_.NewVersion(table.pages().back());
}

void KvCache::Close(SequenceId sequence) {
  EndLoan(sequence);
  Truncate(sequence, 0);
  tables_.erase(sequence);
}

void KvCache::Close(SequenceId sequence, const PrefixPath& path,
                    std::span<const PageKind> kinds) {
  Enter(sequence, path, kinds, /*ends=*/true);
  EnterFarPages(sequence, path, kinds);
  Close(sequence);
}

int KvCache::num_tokens(SequenceId sequence) const {
  return TableOf(sequence).num_tokens();
}

int KvCache::num_sealed(SequenceId sequence) const {
  return TableOf(sequence).num_sealed();
}

std::span<const KvBlockId> KvCache::pages(SequenceId sequence) const {
  return TableOf(sequence).pages();
}

std::span<const KvBlockId> KvCache::far_pages(SequenceId sequence) const {
  return TableOf(sequence).far_pages();
}

int64_t KvCache::NumWhole(SequenceId sequence) const {
  const auto kv_blocks = pages(sequence);
  return std::ssize(kv_blocks) - std::ranges::count(kv_blocks, kNoKvBlock);
}

int64_t KvCache::NumOnHost(SequenceId sequence) const {
  const auto kv_blocks = pages(sequence);
  return std::count_if(
      kv_blocks.begin(), kv_blocks.end(), [this](KvBlockId kv_block) {
        return kv_block == kNoKvBlock || prefixes_.HostOf(kv_block).has_value();
      });
}

KvSnapshot KvCache::Snapshot() const {
  KvSnapshot snapshot;
  snapshot.page_tokens = page_tokens_;
  snapshot.device = SnapshotOf(pool_);
  snapshot.host = SnapshotOf(host_pool_);
  for (const PrefixPageSnapshot& page : prefixes_.Snapshot().pages) {
    if (page.kv_block)
      snapshot.indexed.push_back({*page.kv_block, page.num_users});
    if (page.host_kv_block)
      snapshot.indexed_on_host.push_back(*page.host_kv_block);
  }
  for (const auto& [sequence, table] : tables_) {
    snapshot.tables.push_back(
        {sequence,
         table.num_tokens(),
         table.num_sealed(),
         {table.pages().begin(), table.pages().end()},
         {table.far_pages().begin(), table.far_pages().end()}});
  }
  snapshot.lent.assign(lent_.begin(), lent_.end());
  for (const auto& [sequence, loan] : loans_) {
    snapshot.loans.push_back({sequence, loan.kv_blocks, loan.hosts});
  }
  return snapshot;
}

const PageTable& KvCache::TableOf(SequenceId sequence) const {
  const auto found = tables_.find(sequence);
  CHECK(found != tables_.end(), "sequence={} is not open", sequence.value());
  return found->second;
}

PageTable& KvCache::TableOf(SequenceId sequence) {
  return const_cast<PageTable&>(std::as_const(*this).TableOf(sequence));
}

void KvCache::CheckNoReservation() const {
  CHECK(!reservation_is_open_, "a reservation is open");
}

bool KvCache::WritesSharedPage(const PageTable& table) const {
  return table.num_open_tokens() > 0 &&
         pool_.num_references(table.pages().back()) > 1;
}

// REQUIRES: Need() has counted it.
KvBlockId KvCache::TakeKvBlock() {
  if (pool_.num_free() == 0) ReclaimIdle();
  const std::optional<KvBlockId> kv_block = pool_.Take();
  CHECK(kv_block.has_value(), "num_pages={} are all in use", num_pages());
  return *kv_block;
}

bool KvCache::ReclaimIdle() {
  const std::optional<PagePlaces> page = prefixes_.NextToEvict();
  if (!page) return false;
  if (!page->host) {
    if (const std::optional<KvBlockId> host = TakeHostKvBlock()) {
      prefixes_.AddHost(*page->device, *host);
      tier_copies_.push_back(
          {TierCopy::Direction::kToHost, *page->device, *host});
    }
    // Where sequences hold all of the host, what is below it there goes too.
    while (!prefixes_.HostOf(*page->device) &&
           prefixes_.HasPagesBelow(*page->device)) {
      host_pool_.Release(*prefixes_.EvictHost());
    }
  }
  pool_.Release(*prefixes_.Evict());
  return true;
}

// A step that changes nothing costs no look at the order.
int64_t KvCache::WriteBehind(const WriteBehindLimits& limits) {
  CheckNoReservation();
  const int64_t num_free = pool_.num_free();
  const int64_t num_leaving = NumToBeThere(limits, num_free);
  if (num_leaving == 0 || limits.max_pages == 0 || host_pool_.num_free() == 0 ||
      written_at_ == std::pair(prefixes_.order_version(), num_leaving)) {
    return 0;
  }
  const std::vector<PagePlaces> leaving = prefixes_.NextToEvict(num_leaving);
  const std::vector<KvBlockId> chosen =
      ChooseWrites(limits, {.num_free = num_free,
                            .num_free_host = host_pool_.num_free(),
                            .leaving = leaving});
  for (const KvBlockId kv_block : chosen) {
    const KvBlockId host = *host_pool_.Take();
    prefixes_.AddHost(kv_block, host);
    tier_copies_.push_back({TierCopy::Direction::kToHost, kv_block, host});
  }
  if (chosen.empty()) written_at_ = {prefixes_.order_version(), num_leaving};
  return std::ssize(chosen);
}

// Nothing where there is no host, or sequences hold all of it, or are about to.
// A KV block that a sequence holds is not free when the index gives it up.
std::optional<KvBlockId> KvCache::TakeHostKvBlock() {
  while (host_pool_.num_free() == 0 && num_available_host_pages() > 0) {
    const std::optional<KvBlockId> host = prefixes_.EvictHost();
    if (!host) break;
    host_pool_.Release(*host);
  }
  return host_pool_.Take();
}

std::vector<TierCopy> KvCache::TakeTierCopies() {
  return std::exchange(tier_copies_, {});
}

void KvCache::Hold(std::span<const KvBlockId> kv_blocks) {
  for (const KvBlockId kv_block : kv_blocks) pool_.Share(kv_block);
  prefixes_.Pin(kv_blocks);
}

void KvCache::LetGo(std::span<const KvBlockId> kv_blocks) {
  prefixes_.Unpin(kv_blocks);
  for (const KvBlockId kv_block : kv_blocks) pool_.Release(kv_block);
}

void KvCache::Grow(const Growth& growth, Reservation& reservation) {
  PageTable& table = TableOf(growth.sequence);
  Reservation::Step step = {.sequence = growth.sequence,
                            .num_tokens_before = table.num_tokens(),
                            .replaced = std::nullopt};
  if (growth.num_tokens > 0 && WritesSharedPage(table)) {
    // Letting go of the shared page at once is what tells the last owner in
    // this very step that it is the last: copies run before any row writes.
    step.replaced = table.pages().back();
    const KvBlockId own = TakeKvBlock();
    reservation.copies_.push_back(
        {*step.replaced, own, table.num_open_tokens()});
    table.ReplaceLastPage(own);
    LetGo(std::array{*step.replaced});
  }
  std::vector<KvBlockId> fresh;
  const int64_t num_fresh =
      NewPages(table.num_tokens(), growth.num_tokens, page_tokens_);
  for (int64_t i = 0; i < num_fresh; ++i) fresh.push_back(TakeKvBlock());
  table.Grow(growth.num_tokens, fresh);
  reservation.steps_.push_back(step);
}

void KvCache::Undo(const Reservation& reservation) {
  reservation_is_open_ = false;
  for (const Reservation::Step& step : reservation.steps_) {
    Truncate(step.sequence, step.num_tokens_before);
    if (!step.replaced) continue;
    PageTable& table = TableOf(step.sequence);
    LetGo(std::array{table.pages().back()});
    table.ReplaceLastPage(*step.replaced);
    Hold(std::array{*step.replaced});
  }
}

}  // namespace winnow
