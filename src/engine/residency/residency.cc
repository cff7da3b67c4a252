#include "engine/residency/residency.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace winnow {
namespace {

// Copied to the host before one step, so that none gets long by it (0.3 ms of
// an H200's link).
constexpr int64_t kWriteBehindBytes = int64_t{16} << 20;

}  // namespace

Residency::Residency(KvTiers tiers, const ResidencyOptions& options,
                     const ResidencyLinks& links)
    : options_(options),
      links_(links),
      tiers_(std::move(tiers)),
      mover_(tiers_.host->kv_block_bytes(), links.counters.traffic),
      disk_(*tiers_.host, mover_, links.rates, options.disk_patience) {}

Status Residency::AddDisk(std::unique_ptr<DiskStore> store, Backend& backend,
                          const DiskPrefixesOptions& options) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<DiskPrefixes> prefixes,
      DiskPrefixes::Create(std::move(store), backend, tiers_.cache->pool(),
                           *tiers_.kv, *tiers_.prefixes, options));
  disk_.Attach(std::move(prefixes));
  return Ok{};
}

Status Residency::Check(const Request& request, const Status& resident) const {
  if (IsLayerwise(request)) return tiers_.layerwise->Check(request);
  if (resident.ok()) return resident;
  Error error = resident.error();
  error.message += tiers_.layerwise->WayOut(request);
  return error;
}

void Residency::Open(Queue& queue, Sequence& sequence) {
  if (sequence.request().prefix) return OpenFork(sequence);
  if (sequence.layerwise()) return OpenLayerwise(queue, sequence);
  const SequenceId id = sequence.id();
  const int selector = sequence.request().selector;
  const bool returns = sequence.preempted();
  const int64_t num_fetched = sequence.num_fetched_pages();
  tiers_.prefixes->Open(sequence);
  if (!returns) CountFound(sequence);
  links_.counters.num_restores += sequence.num_fetched_pages() > num_fetched;
  if (selector >= 0) {
    SelectorSet& selectors = *tiers_.selectors;
    const KvCache& kv = *tiers_.kv;
    selectors.Open(selector, id,
                   selectors.FindShared(selector, kv, kv.pages(id)));
  }
  if (!returns) BeginRestore(queue, sequence);
}

void Residency::OpenFork(Sequence& sequence) {
  const SequenceId id = sequence.id();
  const SequenceId prefix = *sequence.request().prefix;
  const int selector = sequence.request().selector;
  sequence.Admit();
  tiers_.kv->Fork(prefix, id);
  if (selector < 0) return;
  if (links_.sequences.Get(prefix).request().selector == selector) {
    tiers_.selectors->Fork(selector, prefix, id,
                           {.num_tokens = sequence.num_prompt_tokens(),
                            .num_rows = sequence.num_prefill_rows()});
  } else {
    tiers_.selectors->Open(selector, id, FindForkShared(sequence.request()));
  }
}

SharedSummaries Residency::FindForkShared(const Request& fork) const {
  const Sequence& prefix = links_.sequences.Get(*fork.prefix);
  const auto num_full =
      static_cast<size_t>(prefix.num_prompt_tokens() / kPageTokens);
  return tiers_.selectors->FindShared(
      fork.selector, *tiers_.kv,
      tiers_.kv->pages(*fork.prefix).first(num_full));
}

// Cached pages are copied from the host to the layer blocks layer by layer.
// Room for restored pages on the host is the sequence's own, once what was
// decided before has left it.
void Residency::OpenLayerwise(Queue& queue, Sequence& sequence) {
  const Request& request = sequence.request();
  const int64_t num_far = tiers_.layerwise->NumFarPages(request);
  const PrefixHit hit =
      tiers_.prefixes->FindFar(sequence, static_cast<size_t>(num_far));
  sequence.CountWritten(tiers_.layerwise->Open(sequence, hit) * page_bytes());
  sequence.Admit();
  sequence.BeginCached(hit.kinds, std::ssize(hit.kinds));
  CountFound(sequence);
  links_.counters.num_restores += !hit.kinds.empty();
  tiers_.selectors->Open(request.selector, sequence.id());
  tiers_.selectors->Grow(queue, request.selector, sequence.id(),
                         sequence.num_prompt_tokens());
  std::vector<DiskPlace> found = disk_.Find(sequence);
  const int64_t num_left = num_far - std::ssize(sequence.cached_kinds());
  found.resize(std::min(found.size(), static_cast<size_t>(num_left)));
  if (found.empty()) return;
  MoveTiers(queue);
  sequence.BeginRestore();
  disk_.Restore(sequence, std::move(found));
}

void Residency::BeginRestore(Queue& queue, Sequence& sequence) {
  std::vector<DiskPlace> found = disk_.Find(sequence);
  if (found.empty()) return;
  const Growth growth = {sequence.id(),
                         static_cast<int>(found.size()) * kPageTokens};
  std::optional<Reservation> pages = tiers_.kv->Reserve({&growth, 1});
  // Where whole lives are not promised, another may have outgrown its own.
  if (!pages) return;
  MoveTiers(queue);
  pages->Commit();
  sequence.BeginRestore();
  disk_.Restore(sequence, std::move(found));
}

void Residency::Prepare(Queue& queue, const StepPlan& plan, bool shares) {
  CopyForDisk(queue);
  KvCache& kv = *tiers_.kv;
  kv.WriteBehind(
      {.watermark = static_cast<int64_t>(options_.write_behind_share *
                                         static_cast<double>(kv.num_pages())),
       .max_pages = std::max<int64_t>(1, kWriteBehindBytes / page_bytes())});
  const std::vector<Growth> growths = plan.Growths();
  std::optional<Reservation> pages = kv.Reserve(growths);
  CHECK(pages.has_value(), "promised pages are missing for {}", ToString(plan));
  MoveTiers(queue);
  if (!pages->copies().empty()) tiers_.cache->Apply(queue, pages->copies());
  pages->Commit();  // The space is ours; its content is not yet true.
  std::vector<SequenceId> makers;
  for (const auto& [id, num_tokens] : growths) {
    const int selector = links_.sequences.Get(id).request().selector;
    if (selector < 0) continue;
    if (shares) tiers_.selectors->ShareInStep(selector, id, kv, makers);
    tiers_.selectors->Grow(queue, selector, id, kv.num_tokens(id));
    makers.push_back(id);
  }
}

// Items that are read layer by layer are not under way when a sequence ends, so
// all are counted.
void Residency::CountCopies(const StepItem& item, const FetchedPieces& brought,
                            Sequence& sequence) {
  if (item.layerwise) {
    const int64_t num_written = tiers_.layerwise->BytesToHost(sequence, item);
    sequence.CountWritten(num_written);
    KvTraffic& traffic = links_.counters.traffic;
    traffic.device_to_host_bytes += num_written;
    traffic.host_to_device_bytes +=
        tiers_.layerwise->BytesFromHost(sequence, item);
  }
  sequence.CountBrought(brought);
  const int num_layers = tiers_.cache->pool().options().num_layers;
  tiers_.slots->CountBrought(item.sequence, brought,
                             item.end_layer == num_layers);
}

void Residency::Seal(const StepItem& item, Sequence& sequence) {
  const int num_computed = sequence.num_computed();
  if (item.layerwise && num_computed > 0) tiers_.layerwise->End(sequence);
  tiers_.kv->Seal(item.sequence, num_computed);
  // Of a chunk between two layer ranges nothing is there in all layers.
  if (item.end_layer < tiers_.cache->pool().options().num_layers) return;
  const int selector = sequence.request().selector;
  if (selector >= 0) {
    tiers_.selectors->Seal(selector, item.sequence, num_computed);
  }
}

void Residency::Enter(const Sequence& sequence) {
  tiers_.prefixes->Enter(sequence);
  disk_.Keep(disk_.TextOf(sequence));
}

void Residency::Preempt(Sequence& sequence) {
  const SequenceId id = sequence.id();
  const int selector = sequence.request().selector;
  if (selector >= 0) tiers_.selectors->Close(selector, id);
  tiers_.prefixes->Park(sequence);
  tiers_.slots->Close(id);
  disk_.Forget(id);
  links_.counters.stall_ms += sequence.StopWaiting();
  sequence.Preempt();
  ++links_.counters.num_preemptions;
}

HeldKv Residency::Close(Sequence& sequence, const SequenceEnding& ending) {
  if (!sequence.admitted()) {
    if (sequence.preempted()) tiers_.prefixes->ForgetParked(sequence);
    return {};
  }
  const SequenceId id = sequence.id();
  KvCache& kv = *tiers_.kv;
  // The step behind its last one writes rows that belong to no sequence.
  if (ending.is_under_way) kv.Truncate(id, sequence.num_computed());
  const int selector = sequence.request().selector;
  if (selector >= 0) tiers_.selectors->Close(selector, id);
  int64_t num_kv_blocks = kv.NumWhole(id) + tiers_.slots->NumSlotKvBlocks(id);
  if (kv.has_loan(id)) num_kv_blocks += std::ssize(kv.loan(id).kv_blocks);
  const HeldKv held = {.device_bytes = num_kv_blocks * page_bytes(),
                       .host_bytes = kv.NumOnHost(id) * page_bytes()};
  DiskPrefixes::Text text;
  if (ending.leaves_pages) text = disk_.TextOf(sequence);
  tiers_.slots->Close(id);
  tiers_.prefixes->Close(sequence, ending.leaves_pages);
  disk_.Forget(id);
  if (ending.leaves_pages) disk_.Keep(std::move(text));
  return held;
}

void Residency::Rebalance() {
  tiers_.slots->MoveFrames();
  if (options_.cache_budget) tiers_.slots->DemoteAll(links_.sequences.items());
}

bool Residency::MakeRoom(int64_t num_wanted) {
  return tiers_.slots->MakeRoom(links_.sequences.items(), num_wanted);
}

bool Residency::MakeRoomForPlan(int64_t num_wanted) {
  if (disk_.GiveUp(num_wanted)) return true;
  if (MakeRoom(num_wanted)) return true;
  // Pages that requests give up may have nowhere to go.
  return disk_.GiveUpFar();
}

void Residency::Promote(Sequence& sequence, int64_t num_pages) {
  const int64_t num_copied = tiers_.slots->Promote(sequence, num_pages);
  sequence.CountFetched(num_copied);
  links_.counters.num_restores += num_copied > 0;
}

void Residency::PollDisk(Queue& queue, bool wait) {
  const std::vector<DiskPrefixes::Restored> all = disk_.Poll(queue, wait);
  for (const auto& [id, num_pages] : disk_.TakeWritten()) {
    if (!links_.sequences.Knows(id)) continue;
    links_.sequences.Get(id).CountWritten(num_pages * page_bytes());
  }
  EndRestores(all);
  disk_.NotePatience(DiskPatience::Clock::now());
  if (disk_.patience().is_over()) GiveUpOnDisk();
}

void Residency::EndRestores(std::span<const DiskPrefixes::Restored> all) {
  EngineCounters& counters = links_.counters;
  for (const DiskPrefixes::Restored& restored : all) {
    Sequence& sequence = links_.sequences.Get(restored.id);
    counters.stall_ms += sequence.EndRestore(restored.kinds);
    counters.num_restores += !restored.kinds.empty();
    counters.num_found_tokens += std::ssize(restored.kinds) * kPageTokens;
    if (sequence.layerwise()) continue;  // It has no pages yet.
    tiers_.kv->Seal(restored.id, sequence.num_computed());
    tiers_.kv->Truncate(restored.id, sequence.num_computed());
  }
}

// Earlier moves of kv go first, because the disk reads pages that kv moves.
void Residency::CopyForDisk(Queue& queue) {
  MoveTiers(queue);
  disk_.CopyPages(queue);
}

// Again each time that the disk is found silent: texts come to be kept all the
// same, as it may answer yet.
bool Residency::GiveUpOnDisk() {
  const std::vector<DiskPrefixes::Restored> restored = disk_.GiveUpRestores();
  EndRestores(restored);
  const bool gives_texts_up = disk_.GiveUpAll();
  return gives_texts_up || !restored.empty();
}

bool Residency::LandDiskCopies() {
  disk_.LandCopies();
  disk_.NotePatience(DiskPatience::Clock::now());
  return disk_.patience().is_over() && GiveUpOnDisk();
}

bool Residency::WaitsToLand(const Sequence& sequence) const {
  if (!sequence.admitted()) return false;
  const SequenceId id = sequence.id();
  return sequence.request().is_watched || sequence.layerwise() ||
         tiers_.kv->NumFar(id) > 0 || tiers_.slots->NumSlotKvBlocks(id) > 0;
}

void Residency::CountFound(const Sequence& sequence) {
  if (!tiers_.prefixes->LooksUp(sequence)) return;
  links_.counters.num_looked_up_tokens += sequence.num_prompt_tokens();
  links_.counters.num_found_tokens += sequence.num_cached_tokens();
}

}  // namespace winnow
