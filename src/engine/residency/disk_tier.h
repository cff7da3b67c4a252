// DiskTier: the disk below the host and the device, if there is one.
#ifndef WINNOW_ENGINE_RESIDENCY_DISK_TIER_H_
#define WINNOW_ENGINE_RESIDENCY_DISK_TIER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/residency/disk_patience.h"
#include "engine/residency/disk_prefixes.h"
#include "engine/residency/kv_mover.h"
#include "engine/schedule/restore_cost.h"

namespace winnow {

// Owns the prefixes on the disk, and knows whether the disk answers. Without
// prefixes it is a disk that holds nothing and is never busy, so no caller asks
// whether there is one. Used by the engine's thread alone; only Poll may wait
// for the disk.
class DiskTier {
 public:
  // REQUIRES: host, mover and rates outlive this.
  DiskTier(const HostPool& host, KvMover& mover, const RestoreRates& rates,
           std::chrono::milliseconds patience)
      : host_(host), mover_(mover), rates_(rates), patience_(patience) {}

  // From here on there is a disk. REQUIRES: there was none.
  void Attach(std::unique_ptr<DiskPrefixes> prefixes);
  // Null where there is no disk.
  const DiskPrefixes* prefixes() const { return prefixes_.get(); }

  // Pages of the prompt behind those that the sequence has begun with. Empty
  // where they are computed sooner, or the disk is silent.
  std::vector<DiskPlace> Find(const Sequence& sequence) const;
  // Starts to read them. REQUIRES: as DiskPrefixes::Restore.
  void Restore(const Sequence& sequence, std::vector<DiskPlace> found);
  void Forget(SequenceId id);
  // Both as DiskPrefixes; without a disk a text is empty, and not kept.
  DiskPrefixes::Text TextOf(const Sequence& sequence) const;
  void Keep(DiskPrefixes::Text text);

  // Takes what the disk has done, and enqueues the copies of what it read. With
  // `wait`, waits for something if the disk does anything.
  std::vector<DiskPrefixes::Restored> Poll(Queue& queue, bool wait);
  // As DiskPrefixes.
  std::map<SequenceId, int64_t> TakeWritten();
  // Enqueues copies of pages that are to be written. REQUIRES: what kv has
  // decided before is enqueued.
  void CopyPages(Queue& queue);
  // The queue has come past all copies.
  void LandCopies();

  // As DiskPrefixes; without a disk false and 0.
  bool is_busy() const;
  bool is_waiting() const;
  int64_t num_held_pages() const;
  bool GiveUp(int64_t num_wanted);
  bool GiveUpFar();
  bool GiveUpAll();
  std::vector<DiskPrefixes::Restored> GiveUpRestores();
  void Abandon();
  const DiskCounts& counts() const;

  // Called on a thread of the disk when Poll has something to take; none:
  // never. Any thread may set it.
  void SetListener(std::function<void()> on_done);
  // Notes whether anything has ended since the last call.
  void NotePatience(DiskPatience::Clock::time_point now);
  const DiskPatience& patience() const { return patience_; }

 private:
  const HostPool& host_;
  KvMover& mover_;
  const RestoreRates& rates_;
  DiskPatience patience_;
  std::unique_ptr<DiskPrefixes> prefixes_;  // null: there is no disk
  const DiskCounts no_counts_ = {};
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_DISK_TIER_H_
