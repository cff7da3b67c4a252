// The engine's side of the disk: when pages are brought, copied and waited for.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace winnow {

Status Engine::AddDisk(std::unique_ptr<DiskStore> store) {
  ASSIGN_OR_RETURN(
      disk_,
      DiskPrefixes::Create(
          std::move(store), backend_, cache_->pool(), kv_, *prefixes_,
          {.computed_by = backend_.attributes().kernels,
           .batch_invariant = options_.batch_invariant,
           .selectors = options_.selectors,
           .check_made_with = [this] { return model_.weights().CheckFiles(); },
           .staging_bytes = options_.disk_staging_bytes}));
  return Ok{};
}

// None where they are computed sooner, or the disk may never bring them.
std::vector<DiskPlace> Engine::FindOnDisk(const Sequence& sequence) const {
  if (disk_is_silent()) return {};
  std::vector<DiskPlace> found = disk_->Find(sequence);
  const auto num_cached = static_cast<int>(sequence.cached_kinds().size());
  const FarPages far = {
      .disk_bytes = std::ssize(found) * limits_.page_bytes,
      .first_token = num_cached * kPageTokens,
      .num_tokens = static_cast<int>(found.size()) * kPageTokens};
  if (!RestorePays(restore_rates_, far)) found.clear();
  return found;
}

void Engine::BeginRestore(Sequence& sequence) {
  std::vector<DiskPlace> found = FindOnDisk(sequence);
  if (found.empty()) return;
  const Growth growth = {sequence.id(),
                         static_cast<int>(found.size()) * kPageTokens};
  std::optional<Reservation> pages = kv_.Reserve({&growth, 1});
  // Where whole lives are not promised, another may have outgrown its own.
  if (!pages) return;
  if (host_) CopyTiers(*host_, kv_.TakeTierCopies());
  pages->Commit();
  sequence.BeginRestore();
  disk_->Restore(sequence, std::move(found));
}

// Its room on the host is its own already, once what was decided before has
// left it.
void Engine::RestoreLayerwise(Sequence& sequence) {
  std::vector<DiskPlace> found = FindOnDisk(sequence);
  const int64_t num_left = layerwise_->NumFarPages(sequence.request()) -
                           std::ssize(sequence.cached_kinds());
  found.resize(std::min(found.size(), static_cast<size_t>(num_left)));
  if (found.empty()) return;
  CopyTiers(*host_, kv_.TakeTierCopies());
  sequence.BeginRestore();
  disk_->Restore(sequence, std::move(found));
}

void Engine::PollDisk(bool wait) {
  const std::vector<DiskPrefixes::Restored> all = disk_->Poll(wait);
  CopyTiers(disk_->staging(), disk_->TakeUploads());
  if (host_) {
    runner_->CopyPages(disk_->staging(), *host_, disk_->TakeHostUploads());
  }
  for (const auto& [id, num_pages] : disk_->TakeWritten()) {
    if (IsKnown(id)) Get(id).CountWritten(num_pages * limits_.page_bytes);
  }
  EndRestores(all);
  NoteDisk();
  if (disk_is_silent()) GiveUpOnDisk();
}

void Engine::EndRestores(const std::vector<DiskPrefixes::Restored>& all) {
  for (const DiskPrefixes::Restored& restored : all) {
    Sequence& sequence = Get(restored.id);
    counters_.stall_ms += sequence.EndRestore(restored.kinds);
    counters_.num_restores += !restored.kinds.empty();
    counters_.num_found_tokens += std::ssize(restored.kinds) * kPageTokens;
    if (sequence.layerwise()) continue;  // It has no pages yet.
    kv_.Seal(restored.id, sequence.num_computed());
    kv_.Truncate(restored.id, sequence.num_computed());
  }
}

void Engine::NoteDisk() {
  const DiskStore& store = disk_->store();
  const DiskCounts& counts = store.counts();
  disk_patience_.Note(store.num_under_way(),
                      counts.num_written + counts.num_read +
                          counts.num_failed_writes + counts.num_failed_reads,
                      DiskPatience::Clock::now());
}

// Again each time that it is found silent: texts come to be kept all the same,
// as it may answer yet.
bool Engine::GiveUpOnDisk() {
  const std::vector<DiskPrefixes::Restored> restored = disk_->GiveUpRestores();
  EndRestores(restored);
  const bool gives_texts_up = disk_->GiveUpAll();
  return gives_texts_up || !restored.empty();
}

// What kv has decided before goes first: pages that it moves are read here.
void Engine::CopyForDisk() {
  if (host_) CopyTiers(*host_, kv_.TakeTierCopies());
  CopyTiers(disk_->staging(), disk_->TakeDownloads());
  if (host_) {
    runner_->CopyPages(*host_, disk_->staging(), disk_->TakeHostDownloads());
  }
}

void Engine::SetDiskListener(std::function<void()> on_done) {
  if (disk_) disk_->SetListener(std::move(on_done));
}

Result<Engine::Progress> Engine::TendDisk() {
  if (!disk_ || !disk_->is_busy()) return Progress::kNothingLeft;
  CopyForDisk();
  const Status drained = runner_->Drain();
  if (!drained.ok()) {
    Fail(drained.error());
    return *failure_;
  }
  disk_->LandCopies();
  NoteDisk();
  if (disk_is_silent() && GiveUpOnDisk()) return Progress::kGoesOn;
  return disk_->is_waiting() ? Progress::kWaitsForDisk : Progress::kGoesOn;
}

}  // namespace winnow
