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
  for (int rank = 0; rank <= 2; ++rank) {
    for (const SequenceSnapshot& sequence : input.sequences) {
      if (sequence.is_read()) continue;
      const int wanted = sequence.num_tokens - FirstToken(sequence);
      CHECK(wanted > 0, "sequence={} has nothing to compute",
            sequence.id.value());
      if (!sequence.admitted || sequence.is_restoring || room == 0) continue;
      if (RankOf(sequence) != rank) continue;
      const int num_tokens = sequence.chunk_tokens > 0
                                 ? sequence.chunk_tokens
                                 : ChunkTokens(FirstToken(sequence), wanted,
                                               room, schedule.plan.empty());
      if (num_tokens == 0 || num_tokens > room) continue;
      room -= num_tokens;
      schedule.plan.items.push_back(ItemOf(sequence, num_tokens, input.limits));
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
