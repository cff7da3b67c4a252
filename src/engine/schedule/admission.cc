#include "engine/schedule/admission.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

// One that is never preempted.
bool IsFirm(const SequenceSnapshot& sequence) {
  return sequence.is_prefix() || sequence.layerwise;
}

}  // namespace

void Admission::LeastRoom::Add(const SequenceSnapshot& sequence) {
  if (IsFirm(sequence)) {
    pages.firm += sequence.life_pages + sequence.fork_pages;
    if (!sequence.is_read()) table_pages.firm += sequence.table_pages;
    return;
  }
  if (!sequence.prefix) {
    pages.longest = std::max(pages.longest, sequence.life_pages);
  }
  table_pages.longest = std::max(table_pages.longest, sequence.table_pages);
}

Admission::Admission(const ScheduleInput& input)
    : limits_(input.limits),
      num_segments_(input.num_segments),
      promised_pages_(-input.repeated_pages) {
  for (const SequenceSnapshot& sequence : input.sequences) {
    if (sequence.admitted) Count(sequence);
  }
}

int64_t Admission::PagesToPromise(const SequenceSnapshot& sequence) const {
  if (!sequence.prefix) {
    return sequence.promised_pages() + sequence.fork_pages -
           sequence.shared_pages;
  }
  const auto room = fork_rooms_.find(*sequence.prefix);
  CHECK(room != fork_rooms_.end(), "fork={} prefix={} is not admitted",
        sequence.id.value(), sequence.prefix->value());
  const auto& [is_read, kept, used] = room->second;
  return std::max(kept, used + sequence.life_pages) - std::max(kept, used);
}

bool Admission::MayRun(const SequenceSnapshot& sequence) const {
  LeastRoom least = least_;
  least.Add(sequence);
  return num_running_ < limits_.max_running() &&
         table_pages_ + sequence.promised_table_pages() <=
             limits_.num_table_pages &&
         least.table_pages.total() <= limits_.num_table_pages &&
         HasSegments(sequence) &&
         promised_host_pages_ + sequence.host_pages <=
             limits_.num_free_host_pages &&
         least.pages.total() <= limits_.num_pages;
}

// Whoever runs alone beside prefixes has (NumSummarySegments), a fork too: so
// each of them runs, one after the other at least.
bool Admission::HasSegments(const SequenceSnapshot& sequence) const {
  if (sequence.num_segments == 0) return true;
  const auto promised = promised_segments_.find(sequence.selector);
  const int64_t wanted =
      (promised == promised_segments_.end() ? 0 : promised->second) +
      sequence.num_segments - sequence.shared_segments;
  return wanted <= num_segments_[static_cast<size_t>(sequence.selector)];
}

int64_t Admission::LackingPages(const SequenceSnapshot& sequence) const {
  return promised_pages_ + PagesToPromise(sequence) - limits_.num_pages;
}

void Admission::Count(const SequenceSnapshot& sequence) {
  promised_pages_ += PagesToPromise(sequence);
  if (!sequence.is_read()) {
    ++num_running_;
    table_pages_ += sequence.promised_table_pages();
  }
  least_.Add(sequence);
  if (!sequence.admitted) promised_host_pages_ += sequence.host_pages;
  if (sequence.num_segments > 0) {
    promised_segments_[sequence.selector] +=
        sequence.num_segments - sequence.shared_segments;
  }
  if (sequence.is_prefix()) {
    fork_rooms_[sequence.id] = {.is_read = sequence.is_read(),
                                .kept_pages = sequence.fork_pages};
  }
  if (sequence.prefix) {
    fork_rooms_[*sequence.prefix].used_pages += sequence.life_pages;
  }
}

std::vector<SequenceId> Admission::Admit(
    std::vector<SequenceSnapshot>& sequences) {
  std::vector<SequenceId> admitted;
  bool others_wait = false;
  for (const size_t i : TurnOrder(sequences)) {
    SequenceSnapshot& sequence = sequences[i];
    if (sequence.admitted) continue;
    bool can_start = true;
    if (sequence.prefix) {
      const auto room = fork_rooms_.find(*sequence.prefix);
      if (room == fork_rooms_.end()) continue;  // Its prefix waits too.
      can_start = room->second.is_read;
    }
    const bool overtakes = sequence.prefix && PagesToPromise(sequence) == 0;
    const bool may_run = MayRun(sequence);
    const int64_t num_lacking = LackingPages(sequence);
    if (!may_run || num_lacking > 0 || (others_wait && !overtakes)) {
      if (!others_wait) {
        if (may_run) num_lacking_pages_ = std::max<int64_t>(num_lacking, 0);
        num_spare_pages_ = std::max<int64_t>(-num_lacking, 0);
      }
      others_wait = true;
      continue;
    }
    // One that cannot start yet is counted all the same: its room is not for
    // those behind it.
    Count(sequence);
    if (!can_start) continue;
    sequence.admitted = true;
    admitted.push_back(sequence.id);
  }
  if (!others_wait) {
    num_spare_pages_ =
        std::max<int64_t>(limits_.num_pages - promised_pages_, 0);
  }
  return admitted;
}

}  // namespace winnow
