#include "engine/residency/disk_tier.h"

#include <utility>

#include "base/check.h"

namespace winnow {

void DiskTier::Attach(std::unique_ptr<DiskPrefixes> prefixes) {
  CHECK(prefixes_ == nullptr, "there is a disk already");
  prefixes_ = std::move(prefixes);
}

std::vector<DiskPlace> DiskTier::Find(const Sequence& sequence) const {
  if (!prefixes_ || patience_.is_over()) return {};
  std::vector<DiskPlace> found = prefixes_->Find(sequence);
  const auto num_cached = static_cast<int>(sequence.cached_kinds().size());
  const FarPages far = {
      .disk_bytes = std::ssize(found) * mover_.page_bytes(),
      .first_token = num_cached * kPageTokens,
      .num_tokens = static_cast<int>(found.size()) * kPageTokens};
  if (!RestorePays(rates_, far)) found.clear();
  return found;
}

void DiskTier::Restore(const Sequence& sequence, std::vector<DiskPlace> found) {
  prefixes_->Restore(sequence, std::move(found));
}

void DiskTier::Forget(SequenceId id) {
  if (prefixes_) prefixes_->Forget(id);
}

DiskPrefixes::Text DiskTier::TextOf(const Sequence& sequence) const {
  return prefixes_ ? prefixes_->TextOf(sequence) : DiskPrefixes::Text();
}

void DiskTier::Keep(DiskPrefixes::Text text) {
  if (prefixes_) prefixes_->Keep(std::move(text));
}

std::vector<DiskPrefixes::Restored> DiskTier::Poll(Queue& queue, bool wait) {
  if (!prefixes_) return {};
  std::vector<DiskPrefixes::Restored> all = prefixes_->Poll(wait);
  mover_.Move(queue, prefixes_->staging(), prefixes_->TakeUploads());
  mover_.Move(queue, prefixes_->staging(), host_, prefixes_->TakeHostUploads());
  return all;
}

std::map<SequenceId, int64_t> DiskTier::TakeWritten() {
  if (!prefixes_) return {};
  return prefixes_->TakeWritten();
}

void DiskTier::CopyPages(Queue& queue) {
  if (!prefixes_) return;
  mover_.Move(queue, prefixes_->staging(), prefixes_->TakeDownloads());
  mover_.Move(queue, host_, prefixes_->staging(),
              prefixes_->TakeHostDownloads());
}

void DiskTier::LandCopies() {
  if (prefixes_) prefixes_->LandCopies();
}

bool DiskTier::is_busy() const { return prefixes_ && prefixes_->is_busy(); }

bool DiskTier::is_waiting() const {
  return prefixes_ && prefixes_->is_waiting();
}

int64_t DiskTier::num_held_pages() const {
  return prefixes_ ? prefixes_->num_held_pages() : 0;
}

bool DiskTier::GiveUp(int64_t num_wanted) {
  return prefixes_ && prefixes_->GiveUp(num_wanted);
}

bool DiskTier::GiveUpFar() { return prefixes_ && prefixes_->GiveUpFar(); }

bool DiskTier::GiveUpAll() { return prefixes_ && prefixes_->GiveUpAll(); }

std::vector<DiskPrefixes::Restored> DiskTier::GiveUpRestores() {
  if (!prefixes_) return {};
  return prefixes_->GiveUpRestores();
}

void DiskTier::Abandon() {
  if (prefixes_) prefixes_->Abandon();
}

const DiskCounts& DiskTier::counts() const {
  return prefixes_ ? prefixes_->store().counts() : no_counts_;
}

void DiskTier::SetListener(std::function<void()> on_done) {
  if (prefixes_) prefixes_->SetListener(std::move(on_done));
}

void DiskTier::NotePatience(DiskPatience::Clock::time_point now) {
  if (!prefixes_) return;
  const DiskStore& store = prefixes_->store();
  const DiskCounts& counts = store.counts();
  patience_.Note(store.num_under_way(),
                 counts.num_written + counts.num_read +
                     counts.num_failed_writes + counts.num_failed_reads,
                 now);
}

}  // namespace winnow
