#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <ranges>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "engine/schedule/admission.h"

namespace winnow {
namespace {

// How many of `wanted` tokens from `first` run in `room` rows, where a chunk
// that does not end its prompt ends at a page; where those are below `least`,
// what there is room for.
int ChunkTokens(int first, int wanted, int room, int least) {
  if (wanted <= room) return wanted;
  const int to_page_end = (first + room) / kPageTokens * kPageTokens - first;
  return to_page_end < least ? room : std::max(to_page_end, 0);
}

// Where the next chunk of a sequence begins.
int FirstToken(const SequenceSnapshot& sequence) {
  return sequence.reads_by_layers() ? sequence.layer_tokens
                                    : sequence.num_computed;
}

int NumWanted(const SequenceSnapshot& sequence) {
  return sequence.num_tokens - FirstToken(sequence);
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
  // Whatever it takes: this, and what is no more in any respect.
  void Allow(const StepItem& item) {
    allowed_ = work_ + WorkOf(item, input_.limits.num_layers);
  }
  // This is somebody's, who will be given it: others have what fits beside it.
  void Keep(const StepItem& item) {
    kept_ = WorkOf(item, input_.limits.num_layers);
  }
  void KeepNothing() { kept_ = {}; }

  // How many of `room` rows of a prompt's next chunk fit in.
  int RowsOf(const SequenceSnapshot& sequence, int room) const {
    if (!is_bound_) return room;
    int fits = 0;
    for (int too_many = room + 1; fits + 1 < too_many;) {
      const int rows = fits + (too_many - fits) / 2;
      (Fits(ItemOf(sequence, rows, input_.limits)) ? fits : too_many) = rows;
    }
    return fits;
  }

 private:
  bool Fits(const StepItem& item) const {
    const StepWork work =
        work_ + kept_ + WorkOf(item, input_.limits.num_layers);
    return work.IsWithin(allowed_) ||
           (input_.cost.Covers(work) &&
            input_.cost.margin * input_.cost.MsOf(work) <=
                input_.limits.max_step_ms);
  }

  const ScheduleInput& input_;
  StepWork work_, kept_, allowed_;
  bool is_bound_ = false;
};

// A step while it is planned, from who is under way to the last prompt.
class PlannedStep {
 public:
  explicit PlannedStep(const ScheduleInput& input)
      : input_(input),
        time_(input),
        room_(input.limits.max_num_batched_tokens) {}

  // A chunk between two layer ranges.
  void GoOn(const SequenceSnapshot& sequence) {
    if (sequence.chunk_tokens <= room_) Add(sequence, sequence.chunk_tokens);
  }
  void AddSingle(const SequenceSnapshot& sequence) {
    if (room_ == 0) return;
    Add(sequence, 1);
    time_.Bound();
  }
  // In order of arrival. Called last.
  void AddPrompts(const std::vector<const SequenceSnapshot*>& prompts);

  StepPlan plan;

 private:
  void Add(const SequenceSnapshot& sequence, int num_tokens) {
    if (num_tokens == 0) return;
    room_ -= num_tokens;
    plan.items.push_back(ItemOf(sequence, num_tokens, input_.limits));
    time_.Take(plan.items.back());
  }
  // Beside the first prompt, which keeps so many rows.
  void AddShorter(const std::vector<const SequenceSnapshot*>& shorter,
                  const SequenceSnapshot& first, int num_kept);
  int64_t LeftOf(const SequenceSnapshot& prompt) const;

  const ScheduleInput& input_;
  StepTime time_;
  int room_;
};

// Rows through a layer each.
int64_t PlannedStep::LeftOf(const SequenceSnapshot& prompt) const {
  const int64_t num_layers = input_.limits.num_layers;
  if (!prompt.reads_by_layers()) return num_layers * NumWanted(prompt);
  return (num_layers - prompt.next_layer) * prompt.num_tokens -
         prompt.layer_tokens;
}

void PlannedStep::AddShorter(
    const std::vector<const SequenceSnapshot*>& shorter,
    const SequenceSnapshot& first, int num_kept) {
  time_.Keep(ItemOf(first, num_kept, input_.limits));
  int least = 1;
  for (const SequenceSnapshot* prompt : shorter) {
    const int rows = time_.RowsOf(*prompt, room_ - num_kept);
    const int num_tokens =
        ChunkTokens(FirstToken(*prompt), NumWanted(*prompt), rows, least);
    Add(*prompt, num_tokens);
    // The others' end at a page, so that rows are not shared out in crumbs.
    if (num_tokens > 0) least = 0;
  }
  time_.KeepNothing();
}

void PlannedStep::AddPrompts(
    const std::vector<const SequenceSnapshot*>& prompts) {
  if (prompts.empty() || room_ == 0) return;
  const SequenceSnapshot& first = *prompts.front();
  // As many pages as there are layers are a page through all.
  const int num_pages = first.reads_by_layers() ? input_.limits.num_layers : 1;
  const int most = std::max(time_.RowsOf(first, room_),
                            std::min(room_, num_pages * kPageTokens));
  time_.Allow(ItemOf(first, most, input_.limits));
  std::vector<const SequenceSnapshot*> shorter;
  std::ranges::copy_if(prompts, std::back_inserter(shorter),
                       [&](const SequenceSnapshot* prompt) {
                         return LeftOf(*prompt) < LeftOf(first);
                       });
  std::ranges::stable_sort(shorter, {}, [this](const SequenceSnapshot* prompt) {
    return LeftOf(*prompt);
  });
  int rows = most, least = 1;
  if (!shorter.empty()) {
    least = std::min((most + 1) / 2, NumWanted(first));
    AddShorter(shorter, first, least);
    rows = std::max(time_.RowsOf(first, room_), least);
  }
  Add(first, ChunkTokens(FirstToken(first), NumWanted(first), rows, least));
  for (const SequenceSnapshot* prompt : prompts) {
    if (plan.Find(prompt->id) != nullptr) continue;
    Add(*prompt, ChunkTokens(FirstToken(*prompt), NumWanted(*prompt),
                             time_.RowsOf(*prompt, room_), /*least=*/0));
  }
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
  PlannedStep step(input);
  std::vector<const SequenceSnapshot*> prompts;
  for (int rank = 0; rank <= 2; ++rank) {
    for (const SequenceSnapshot& sequence : input.sequences) {
      if (sequence.is_read()) continue;
      CHECK(NumWanted(sequence) > 0, "sequence={} has nothing to compute",
            sequence.id.value());
      if (!sequence.admitted || sequence.is_restoring) continue;
      if (RankOf(sequence) != rank) continue;
      if (rank == 0) step.GoOn(sequence);
      if (rank == 1) step.AddSingle(sequence);
      if (rank == 2) prompts.push_back(&sequence);
    }
  }
  step.AddPrompts(prompts);
  schedule.plan = std::move(step.plan);
  std::stable_sort(schedule.plan.items.begin(), schedule.plan.items.end(),
                   [](const StepItem& a, const StepItem& b) {
                     return std::tuple(a.first_layer, a.end_layer,
                                       a.layerwise) <
                            std::tuple(b.first_layer, b.end_layer, b.layerwise);
                   });
  return schedule;
}

}  // namespace winnow
