#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <tuple>

#include "base/check.h"
#include "engine/admission.h"

namespace winnow {
namespace {

// How many of `wanted` tokens from `first` run in `room` rows. A chunk that
// does not end its prompt ends at a page; where the room is below a page, the
// prompt waits, unless it is alone.
int ChunkTokens(int first, int wanted, int room, bool alone) {
  if (wanted <= room) return wanted;
  const int end = (first + room) / kPageTokens * kPageTokens;
  if (end > first) return end - first;
  return alone ? room : 0;
}

// Where the next chunk of a sequence begins.
int FirstToken(const SequenceSnapshot& sequence) {
  return sequence.reads_by_layers() ? sequence.layer_tokens
                                    : sequence.num_computed;
}

StepItem ItemOf(const SequenceSnapshot& sequence, int num_tokens,
                const SchedulerLimits& limits) {
  const bool layerwise = sequence.reads_by_layers();
  const int all_or_part =
      limits.layers_per_step > 0 && !sequence.needs_all_layers
          ? limits.layers_per_step
          : limits.num_layers;
  const int wanted_layers = layerwise ? 1 : all_or_part;
  StepItem item;
  item.sequence = sequence.id;
  item.layerwise = layerwise;
  item.first_token = FirstToken(sequence);
  item.num_tokens = num_tokens;
  item.first_layer = sequence.next_layer;
  item.end_layer =
      std::min(sequence.next_layer + wanted_layers, limits.num_layers);
  item.samples = !sequence.is_prefix() && item.end_layer == limits.num_layers &&
                 item.first_token + num_tokens == sequence.num_tokens;
  const int first = std::max(item.first_token, sequence.first_scored);
  const int end = std::min(item.first_token + num_tokens, sequence.end_scored);
  if (first < end && item.end_layer == limits.num_layers) {
    item.first_scored = first;
    item.num_scored = end - first;
  }
  return item;
}

// What a step may take yet, as far as time is concerned.
class StepTime {
 public:
  explicit StepTime(const ScheduleInput& input) : input_(input) {}

  void Take(const StepItem& item) {
    work_ += WorkOf(item, input_.limits.num_layers);
  }
  // Somebody waits for it.
  void Bound() { is_bound_ = input_.limits.max_step_ms > 0; }

  // A prompt has been given rows.
  void BeginPrompt() { has_prompt_ = true; }

  // How many of `room` rows of a prompt's next chunk fit in; of the first
  // prompt in a step, those to a page's end at least. Of one that is read layer
  // by layer so many pages as there are layers, which is a page through all.
  int RowsOf(const SequenceSnapshot& sequence, int room) const {
    if (!is_bound_ || room == 0) return room;
    const int num_pages =
        sequence.reads_by_layers() ? input_.limits.num_layers : 1;
    const int to_page_end =
        num_pages * kPageTokens - FirstToken(sequence) % kPageTokens;
    const int least = has_prompt_ ? 0 : std::min(room, to_page_end);
    int fits = 0;
    for (int too_many = room + 1; fits + 1 < too_many;) {
      const int rows = fits + (too_many - fits) / 2;
      (Fits(ItemOf(sequence, rows, input_.limits)) ? fits : too_many) = rows;
    }
    return std::max(fits, least);
  }

 private:
  bool Fits(const StepItem& item) const {
    const StepWork work = work_ + WorkOf(item, input_.limits.num_layers);
    return input_.cost.Covers(work) &&
           input_.cost.margin * input_.cost.MsOf(work) <=
               input_.limits.max_step_ms;
  }

  const ScheduleInput& input_;
  StepWork work_;
  bool is_bound_ = false;
  bool has_prompt_ = false;
};

// Rank of a sequence in a step: under way, one token, prompt.
int RankOf(const SequenceSnapshot& sequence) {
  if (sequence.chunk_tokens > 0) return 0;
  return sequence.num_tokens - sequence.num_computed == 1 ? 1 : 2;
}

// Once for each that waits, however many go before it.
std::vector<SequenceId> OvertakenBy(
    const std::vector<SequenceId>& admitted,
    const std::vector<SequenceSnapshot>& sequences) {
  std::vector<SequenceId> overtaken;
  if (admitted.empty()) return overtaken;
  int64_t best_later = std::numeric_limits<int64_t>::max();
  // Not views::reverse, which clang 14, the fuzzers' compiler, cannot read.
  for (auto last = sequences.rbegin(); last != sequences.rend(); ++last) {
    if (std::ranges::find(admitted, last->id) != admitted.end()) {
      best_later = std::min(best_later, int64_t{last->priority});
    } else if (!last->admitted && best_later < last->priority) {
      overtaken.push_back(last->id);
    }
  }
  return overtaken;
}

}  // namespace

std::vector<size_t> TurnOrder(std::span<const SequenceSnapshot> sequences) {
  std::vector<size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    const SequenceSnapshot& sequence = sequences[i];
    const bool first = sequence.num_overtaken >= kMaxOvertaken;
    return first ? std::numeric_limits<int64_t>::min()
                 : int64_t{sequence.priority};
  });
  return order;
}

std::vector<SequenceId> ExpiredSequences(
    std::span<const SequenceSnapshot> sequences,
    std::chrono::steady_clock::time_point now) {
  std::vector<SequenceId> expired;
  for (const SequenceSnapshot& sequence : sequences) {
    if (sequence.deadline && *sequence.deadline <= now) {
      expired.push_back(sequence.id);
    }
  }
  return expired;
}

Schedule PlanStep(const ScheduleInput& given) {
  ScheduleInput input = given;
  Schedule schedule;
  if (given.admits) {
    Admission admission(given);
    schedule.admitted = admission.Admit(input.sequences);
    schedule.num_lacking_pages = admission.num_lacking_pages();
    schedule.num_spare_pages = admission.num_spare_pages();
    schedule.overtaken = OvertakenBy(schedule.admitted, input.sequences);
  }
  int room = input.limits.max_num_batched_tokens;
  StepTime time(input);
  for (int rank = 0; rank <= 2; ++rank) {
    for (const SequenceSnapshot& sequence : input.sequences) {
      if (sequence.is_read()) continue;
      const int wanted = sequence.num_tokens - FirstToken(sequence);
      CHECK(wanted > 0, "sequence={} has nothing to compute",
            sequence.id.value());
      if (!sequence.admitted || sequence.is_restoring || room == 0) continue;
      if (RankOf(sequence) != rank) continue;
      int num_tokens = sequence.chunk_tokens;
      if (num_tokens == 0) {
        const int most = rank == 2 ? time.RowsOf(sequence, room) : room;
        num_tokens = ChunkTokens(FirstToken(sequence), wanted, most,
                                 schedule.plan.empty());
      }
      if (num_tokens == 0 || num_tokens > room) continue;
      room -= num_tokens;
      schedule.plan.items.push_back(ItemOf(sequence, num_tokens, input.limits));
      time.Take(schedule.plan.items.back());
      if (rank == 1) time.Bound();
      if (rank == 2) time.BeginPrompt();
    }
  }
  std::stable_sort(schedule.plan.items.begin(), schedule.plan.items.end(),
                   [](const StepItem& a, const StepItem& b) {
                     return std::tuple(a.first_layer, a.end_layer,
                                       a.layerwise) <
                            std::tuple(b.first_layer, b.end_layer, b.layerwise);
                   });
  return schedule;
}

}  // namespace winnow
