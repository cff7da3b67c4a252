#include "engine/residency/disk_prefixes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/direct_folder.h"

namespace winnow {
namespace {

// Twice what a disk has under way. Memory that more would take is touched once,
// which costs more than the disk gains (bench/check_tiers prefix).
constexpr int64_t kMostStagingPages = 2 * DirectFolderOptions().max_transfers;

const std::array<PageKind, 2> kEitherKind = {kPromptPage, GeneratedPage(-1)};

}  // namespace

std::string NotKept(const Error& end) {
  return "no more KV is kept: " + end.message;
}

Result<std::unique_ptr<DiskPrefixes>> DiskPrefixes::Create(
    std::unique_ptr<DiskStore> store, Backend& backend,
    const LayerBlockPool& device, KvCache& kv, const PrefixCache& prefixes,
    const DiskPrefixesOptions& options) {
  const int64_t piece_bytes = store->piece_bytes();
  std::unique_ptr<DiskPrefixes> disk(
      new DiskPrefixes(std::move(store), kv, prefixes, options));
  const int64_t num_kv_blocks = std::clamp<int64_t>(
      options.staging_bytes / piece_bytes, 2, kMostStagingPages);
  ASSIGN_OR_RETURN(
      disk->staging_,
      HostPool::Create(backend, device, {.num_kv_blocks = num_kv_blocks}));
  CHECK(disk->staging_->kv_block_bytes() == piece_bytes,
        "kv_block_bytes={} piece_bytes={}", disk->staging_->kv_block_bytes(),
        piece_bytes);
  for (int64_t i = 0; i < num_kv_blocks; ++i) {
    disk->free_staging_.push_back(KvBlockId(static_cast<uint32_t>(i)));
  }
  return disk;
}

std::string DiskPrefixes::DiskRoot(const Sequence& sequence) const {
  const Selector* selector = prefixes_.SelectorOf(sequence);
  const int chooser = sequence.request().selector;
  const bool acts = selector != nullptr && selector->program.in_prompt;
  return fmt::format(
      "{}, batch-invariant {}, {}\n{}", options_.computed_by,
      options_.batch_invariant,
      acts ? options_.selectors[static_cast<size_t>(chooser)] : "dense prompts",
      PrefixRoot(sequence, selector));
}

std::vector<PageKind> DiskPrefixes::KindsFor(const Sequence& sequence) const {
  std::vector<PageKind> kinds = {kPromptPage};
  if (!options_.batch_invariant && sequence.request().selector < 0) {
    kinds.push_back(GeneratedPage(-1));
  }
  return kinds;
}

std::vector<DiskPlace> DiskPrefixes::Find(const Sequence& sequence) const {
  if (end_ || !prefixes_.TakesPart(sequence)) return {};
  const std::vector<PageKind>& begun = sequence.cached_kinds();
  std::vector<DiskPlace> found =
      store_->Find({DiskRoot(sequence), sequence.tokens()},
                   prefixes_.MaxCachedPages(sequence), KindsFor(sequence));
  if (found.size() <= begun.size()) return {};
  // What is there was computed after pages of those kinds.
  const auto is_equal = [](PageKind kind, const DiskPlace& place) {
    return kind == place.kind;
  };
  if (!std::equal(begun.begin(), begun.end(), found.begin(), is_equal)) {
    return {};
  }
  found.erase(found.begin(),
              found.begin() + static_cast<ptrdiff_t>(begun.size()));
  return found;
}

void DiskPrefixes::Restore(const Sequence& sequence,
                           std::vector<DiskPlace> found) {
  const SequenceId id = sequence.id();
  CHECK(!restorations_.contains(id), "sequence={}", id.value());
  Restoration& restoration = restorations_[id];
  restoration.first_page = sequence.cached_kinds().size();
  restoration.num_wanted = found.size();
  restoration.is_there.resize(found.size());
  restoration.found = std::move(found);
  StartReads();
}

void DiskPrefixes::Forget(SequenceId id) { restorations_.erase(id); }

std::optional<KvBlockId> DiskPrefixes::TakeStaging() {
  if (free_staging_.empty()) return std::nullopt;
  const KvBlockId staging = free_staging_.back();
  free_staging_.pop_back();
  return staging;
}

void DiskPrefixes::StartReads() {
  std::vector<DiskPlace> places;
  std::vector<std::span<std::byte>> targets;
  std::vector<Reading> readings;
  for (auto& [id, restoration] : restorations_) {
    while (restoration.num_begun < restoration.num_wanted) {
      const std::optional<KvBlockId> staging = TakeStaging();
      if (!staging) break;
      const size_t page = restoration.num_begun++;
      ++restoration.num_under_way;
      places.push_back(restoration.found[page]);
      const View bytes = staging_->KvBlock(*staging);
      targets.push_back({static_cast<std::byte*>(bytes.data),
                         static_cast<size_t>(staging_->kv_block_bytes())});
      readings.push_back({id, page, *staging});
    }
  }
  for (const DiskTicket& ticket : store_->Read(places, targets)) {
    readings_[ticket.ticket] = readings[ticket.page];
  }
}

void DiskPrefixes::LandRead(const Reading& reading, const Status& status) {
  const auto found = restorations_.find(reading.id);
  if (found == restorations_.end()) {
    free_staging_.push_back(reading.staging);
    return;
  }
  Restoration& restoration = found->second;
  --restoration.num_under_way;
  if (!status.ok()) {
    restoration.num_wanted = std::min(restoration.num_wanted, reading.page);
    free_staging_.push_back(reading.staging);
    return;
  }
  restoration.is_there[reading.page] = true;
  const size_t page = restoration.first_page + reading.page;
  if (kv_.has_loan(reading.id)) {
    host_uploads_.push_back(
        {.from = reading.staging, .to = kv_.loan(reading.id).hosts[page]});
  } else {
    uploads_.push_back({TierCopy::Direction::kToDevice,
                        kv_.pages(reading.id)[page], reading.staging});
  }
}

std::optional<DiskPrefixes::Restored> DiskPrefixes::EndIfDone(SequenceId id) {
  const auto found = restorations_.find(id);
  if (found == restorations_.end()) return std::nullopt;
  const Restoration& restoration = found->second;
  if (restoration.num_under_way > 0 ||
      restoration.num_begun < restoration.num_wanted) {
    return std::nullopt;
  }
  Restored restored = {.id = id, .kinds = {}};
  for (size_t page = 0; page < restoration.num_wanted; ++page) {
    CHECK(restoration.is_there[page], "sequence={} page={}", id.value(), page);
    restored.kinds.push_back(restoration.found[page].kind);
  }
  restorations_.erase(found);
  return restored;
}

std::vector<DiskPrefixes::Restored> DiskPrefixes::Poll(bool wait) {
  std::vector<Restored> all;
  for (const PieceDone& done : wait ? store_->Wait() : store_->Poll()) {
    const auto writing = writings_.find(done.ticket);
    if (writing != writings_.end()) {
      const auto& [staging, writer] = writing->second;
      if (done.status.ok()) ++written_[writer];
      free_staging_.push_back(staging);
      writings_.erase(writing);
      continue;
    }
    const auto found = readings_.find(done.ticket);
    CHECK(found != readings_.end(), "ticket={}", done.ticket);
    const Reading reading = found->second;
    readings_.erase(found);
    LandRead(reading, done.status);
    if (auto restored = EndIfDone(reading.id)) {
      all.push_back(*std::move(restored));
    }
  }
  StartReads();
  return all;
}

DiskPrefixes::Text DiskPrefixes::TextOf(const Sequence& sequence) const {
  Text text;
  if (!prefixes_.TakesPart(sequence)) return text;
  text.kinds = prefixes_.KindsOf(sequence);
  const std::vector<PageKind> kept = KindsFor(sequence);
  const auto end = std::ranges::find_if(text.kinds, [&kept](PageKind kind) {
    return std::ranges::find(kept, kind) == kept.end();
  });
  text.kinds.erase(end, text.kinds.end());
  text.tokens.assign(
      sequence.tokens().begin(),
      sequence.tokens().begin() + std::ssize(text.kinds) * kPageTokens);
  text.writer = sequence.id();
  text.index_root = PrefixRoot(sequence, prefixes_.SelectorOf(sequence));
  text.disk_root = DiskRoot(sequence);
  return text;
}

size_t DiskPrefixes::NumThere(const Text& text) const {
  const std::vector<DiskPlace> found =
      store_->Find(text.path(), text.kinds.size(), kEitherKind);
  const auto same =
      std::ranges::mismatch(text.kinds, found, {}, {}, &DiskPlace::kind);
  return static_cast<size_t>(same.in1 - text.kinds.begin());
}

void DiskPrefixes::Keep(Text text) {
  if (end_) return;
  PrefixHit hit = kv_.prefixes().Find({text.index_root, text.tokens},
                                      text.kinds.size(), kEitherKind);
  const auto same = std::ranges::mismatch(hit.kinds, text.kinds);
  hit.Shorten(static_cast<size_t>(same.in1 - hit.kinds.begin()));
  const int64_t num_far = std::ssize(hit.host_kv_blocks);
  // Where sequences hold all of the host, what lies there is not held for this.
  if (num_far > kv_.num_available_host_pages())
    hit.Shorten(hit.kv_blocks.size());
  text.kinds.resize(hit.kinds.size());
  if (NumThere(text) == text.kinds.size()) {
    // Nothing to write; but it has been used.
    store_->Write(text.path(), text.kinds, text.kinds.size(), {});
    return;
  }
  const SequenceId id(next_id_++), far_id(next_id_++);
  const PrefixHit far = {
      .kv_blocks = {},
      .host_kv_blocks = std::exchange(hit.host_kv_blocks, {}),
      .kinds = {hit.kinds.begin() + std::ssize(hit.kv_blocks),
                hit.kinds.end()}};
  hit.kinds.resize(hit.kv_blocks.size());
  kv_.Open(far_id);
  kv_.LendTo(far_id, 0, std::ssize(far.kinds), far);
  kv_.Open(id, hit);
  num_held_pages_ += std::ssize(hit.kv_blocks);
  backlog_.push_back({.id = id,
                      .far_id = far_id,
                      .text = std::make_shared<const Text>(std::move(text))});
}

void DiskPrefixes::EndBacklog(size_t index) {
  const SequenceId id = backlog_[index].id;
  num_held_pages_ -= std::ssize(kv_.pages(id));
  kv_.Close(id);
  kv_.Close(backlog_[index].far_id);
  backlog_.erase(backlog_.begin() + static_cast<ptrdiff_t>(index));
}

// What others wrote meanwhile is not copied again.
void DiskPrefixes::StartCopies() {
  int64_t room =
      std::max<int64_t>(1, options_.step_bytes / staging_->kv_block_bytes());
  while (!backlog_.empty() && room > 0) {
    Backlog& first = backlog_.front();
    const Text& text = *first.text;
    if (!first.next_page) first.next_page = NumThere(text);
    if (*first.next_page == text.kinds.size()) {
      EndBacklog(0);
      continue;
    }
    const std::optional<KvBlockId> staging = TakeStaging();
    if (!staging) return;
    const size_t page = (*first.next_page)++;
    downloads_.push_back({first.text, page, *staging});
    CopyToStaging(first, page, *staging);
    --room;
  }
}

void DiskPrefixes::CopyToStaging(const Backlog& text, size_t page,
                                 KvBlockId staging) {
  const std::span<const KvBlockId> near = kv_.pages(text.id);
  if (page < near.size()) {
    tier_downloads_.push_back(
        {TierCopy::Direction::kToHost, near[page], staging});
  } else {
    const std::vector<KvBlockId>& far = kv_.loan(text.far_id).hosts;
    host_downloads_.push_back({.from = far[page - near.size()], .to = staging});
  }
}

std::vector<TierCopy> DiskPrefixes::TakeUploads() {
  for (const TierCopy& copy : uploads_) uploaded_.push_back(copy.host);
  return std::exchange(uploads_, {});
}

std::vector<HostCopy> DiskPrefixes::TakeHostUploads() {
  for (const HostCopy& copy : host_uploads_) uploaded_.push_back(copy.from);
  return std::exchange(host_uploads_, {});
}

std::vector<TierCopy> DiskPrefixes::TakeDownloads() {
  CHECK(downloads_.empty(), "{} have not landed", downloads_.size());
  StartCopies();
  return std::exchange(tier_downloads_, {});
}

std::vector<HostCopy> DiskPrefixes::TakeHostDownloads() {
  return std::exchange(host_downloads_, {});
}

void DiskPrefixes::LandCopies() {
  std::ranges::copy(std::exchange(uploaded_, {}),
                    std::back_inserter(free_staging_));
  std::vector<Copied> landed = std::exchange(downloads_, {});
  if (!landed.empty() && !MayWrite(landed)) landed.clear();
  for (size_t begin = 0; begin < landed.size();) {
    size_t end = begin + 1;
    while (end < landed.size() && landed[end].text == landed[begin].text) ++end;
    Write(std::span(landed).subspan(begin, end - begin));
    begin = end;
  }
  StartReads();
}

bool DiskPrefixes::MayWrite(std::span<const Copied> landed) {
  if (!end_ && options_.check_made_with) {
    const Status status = options_.check_made_with();
    if (!status.ok()) end_ = status.error();
  }
  if (!end_) return true;
  for (const Copied& copied : landed) free_staging_.push_back(copied.staging);
  GiveUpAll();
  return false;
}

// REQUIRES: consecutive pages of one text.
void DiskPrefixes::Write(std::span<const Copied> pages) {
  const Text& text = *pages.front().text;
  const size_t first_page = pages.front().page;
  std::vector<std::span<const std::byte>> sources;
  for (const Copied& copied : pages) {
    const View bytes = staging_->KvBlock(copied.staging);
    sources.push_back({static_cast<const std::byte*>(bytes.data),
                       static_cast<size_t>(staging_->kv_block_bytes())});
  }
  std::vector<bool> is_under_way(pages.size());
  for (const DiskTicket& ticket : store_->Write(
           text.path(), std::span(text.kinds).first(first_page + pages.size()),
           first_page, sources)) {
    const size_t index = ticket.page - first_page;
    writings_[ticket.ticket] = {pages[index].staging, text.writer};
    is_under_way[index] = true;
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    if (!is_under_way[i]) free_staging_.push_back(pages[i].staging);
  }
}

bool DiskPrefixes::is_busy() const {
  return !restorations_.empty() || !backlog_.empty() || !downloads_.empty() ||
         !uploaded_.empty() || store_->num_under_way() > 0;
}

// Of pages that texts share none comes free before the last of these ends.
bool DiskPrefixes::GiveUp(int64_t num_wanted) {
  CHECK(downloads_.empty(), "{} have not landed", downloads_.size());
  const int64_t num_free = kv_.num_free_pages();
  std::map<KvBlockId, int64_t> num_texts;
  for (const Backlog& text : backlog_) {
    for (const KvBlockId kv_block : kv_.pages(text.id)) ++num_texts[kv_block];
  }
  for (size_t i = backlog_.size();
       i-- > 0 && kv_.num_free_pages() - num_free < num_wanted;) {
    const auto pages = kv_.pages(backlog_[i].id);
    const bool frees = std::ranges::any_of(pages, [&](KvBlockId kv_block) {
      return kv_.NumHolders(kv_block) == num_texts[kv_block];
    });
    if (!frees) continue;
    for (const KvBlockId kv_block : pages) --num_texts[kv_block];
    EndBacklog(i);
  }
  return kv_.num_free_pages() > num_free;
}

bool DiskPrefixes::GiveUpFar() {
  CHECK(downloads_.empty(), "{} have not landed", downloads_.size());
  for (size_t i = backlog_.size(); i-- > 0;) {
    if (kv_.loan(backlog_[i].far_id).hosts.empty()) continue;
    EndBacklog(i);
    return true;
  }
  return false;
}

bool DiskPrefixes::GiveUpAll() {
  CHECK(downloads_.empty(), "{} have not landed", downloads_.size());
  if (backlog_.empty()) return false;
  while (!backlog_.empty()) EndBacklog(0);
  return true;
}

// What the disk brings later comes to staging, and is nobody's: LandRead.
std::vector<DiskPrefixes::Restored> DiskPrefixes::GiveUpRestores() {
  CHECK(uploads_.empty() && host_uploads_.empty());
  std::vector<Restored> all;
  for (const auto& [id, restoration] : std::exchange(restorations_, {})) {
    Restored& restored = all.emplace_back(Restored{.id = id, .kinds = {}});
    for (size_t page = 0;
         page < restoration.num_wanted && restoration.is_there[page]; ++page) {
      restored.kinds.push_back(restoration.found[page].kind);
    }
  }
  return all;
}

void DiskPrefixes::Abandon() {
  while (!backlog_.empty()) EndBacklog(0);
  restorations_.clear();
  for (const Copied& copied : std::exchange(downloads_, {})) {
    free_staging_.push_back(copied.staging);
  }
}

}  // namespace winnow
