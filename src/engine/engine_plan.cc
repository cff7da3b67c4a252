// The engine's planning: who starts, who gives up pages, who is preempted.
#include <algorithm>

#include "engine/engine.h"

namespace winnow {
namespace {

// Copied to the host before one step, so that none gets long by it (0.3 ms of
// an H200's link).
constexpr int64_t kWriteBehindBytes = int64_t{16} << 20;

}  // namespace

// Where there is a host whole lives need not be promised.
std::vector<SequenceSnapshot> Engine::Snapshots(
    const StepPlan* under_way) const {
  std::vector<SequenceSnapshot> snapshots;
  for (const auto& sequence : sequences_) {
    const StepItem* item =
        under_way == nullptr ? nullptr : under_way->Find(sequence->id());
    if (item != nullptr && sequence->EndsWith(*item)) continue;
    const Request& request = sequence->request();
    SequenceSnapshot& snapshot = snapshots.emplace_back(
        item == nullptr ? sequence->Snapshot()
                        : sequence->SnapshotAfter(*item));
    snapshot.selector = request.selector;
    snapshot.needs_all_layers = request.selector >= 0 &&
                                selectors_->selector(request.selector).reuses();
    CountSegments(*sequence, request.max_tokens, snapshot);
    if (sequence->layerwise()) {
      CountLayerwise(*sequence, snapshot);
      continue;
    }
    const int64_t num_saved = slots_ ? slots_->NumSaved(sequence->id()) : 0;
    if (request.prefix) snapshot.life_pages -= num_saved;
    if (!host_ || sequence->is_prefix() || request.prefix) continue;
    const int num_drawn = item != nullptr && item->samples ? 1 : 0;
    const int output = ExpectedOutput(outputs_, request.max_tokens,
                                      sequence->num_generated() + num_drawn);
    snapshot.expected_table_pages =
        PagesFor(int64_t{sequence->num_prompt_tokens()} + output - 1);
    snapshot.expected_pages = *snapshot.expected_table_pages - num_saved;
    CountSegments(*sequence, output, snapshot);
  }
  return snapshots;
}

// A fork that runs shares what it shares, as NumPromisableSegments knows.
void Engine::CountSegments(const Sequence& sequence, int num_outputs,
                           SequenceSnapshot& snapshot) const {
  const Request& request = sequence.request();
  if (request.selector < 0) return;
  const int64_t num_prompt_tokens = sequence.num_prompt_tokens();
  const int64_t num_tokens = sequence.is_prefix()
                                 ? num_prompt_tokens
                                 : num_prompt_tokens + num_outputs - 1;
  snapshot.num_segments = selectors_->NumSegments(request.selector, num_tokens);
  if (!request.prefix || sequence.admitted()) return;
  const Sequence& prefix = Get(*request.prefix);
  if (prefix.request().selector != request.selector) return;
  snapshot.shared_segments =
      selectors_->NumFullSegments(request.selector, prefix.num_prompt_tokens());
}

void Engine::CountLayerwise(const Sequence& sequence,
                            SequenceSnapshot& snapshot) const {
  const Request& request = sequence.request();
  const LayerCapacity room = layerwise_->RoomOf(request);
  const bool is_read = sequence.num_computed() > 0;
  snapshot.life_pages = is_read ? room.num_decoding() : room.num_most();
  if (!sequence.admitted()) {
    snapshot.host_pages = layerwise_->NumFarPages(request);
  }
}

Schedule Engine::Plan(bool admits, const StepPlan* under_way) const {
  ScheduleInput input;
  input.admits = admits;
  input.limits = {.max_num_seqs = options_.max_num_seqs,
                  .max_num_batched_tokens = options_.max_num_batched_tokens,
                  .num_layers = model_.config().num_layers,
                  .layers_per_step = options_.layers_per_step,
                  .num_pages = num_pages_,
                  .num_free_host_pages = kv_.num_available_host_pages(),
                  .num_table_pages = cache_->num_table_pages(),
                  .max_step_ms = options_.max_step_ms};
  if (disk_) input.limits.num_pages -= disk_->num_held_pages();
  input.num_segments = selectors_->NumPromisableSegments();
  input.sequences = Snapshots(under_way);
  if (admits) CountShared(input);
  input.cost = step_cost_.cost();
  Schedule schedule = PlanStep(input);
  if (options_.on_decision) {
    options_.on_decision(ScheduleDecision{std::move(input), schedule});
  }
  return schedule;
}

// Of those that wait, the first alone, and where it may be its turn: nobody
// overtakes it, and a look-up for each would cost more the more there are. Of
// forks, which may, the first too whose prefix has no summaries.
void Engine::CountShared(ScheduleInput& input) const {
  input.repeated_pages = kv_.prefixes().num_repeated();
  const auto num_running = std::count_if(
      input.sequences.begin(), input.sequences.end(),
      [](const auto& each) { return each.admitted && !each.is_read(); });
  if (num_running >= input.limits.max_running()) return;
  bool any_fork = false;
  for (const size_t i : TurnOrder(input.sequences)) {
    SequenceSnapshot& first = input.sequences[i];
    if (first.admitted) continue;
    if (first.prefix) {
      any_fork = any_fork || CountSharedByForks(first);
      continue;
    }
    // What it begins with takes nothing off what it is lent.
    if (first.layerwise) return;
    const std::vector<KvBlockId> near = prefixes_->NearPages(Get(first.id));
    first.shared_pages = kv_.prefixes().NumUsed(near);
    if (first.selector >= 0) {
      const SharedSummaries shared =
          selectors_->FindShared(first.selector, kv_, near);
      first.shared_segments =
          selectors_->NumFullSegments(first.selector, shared.num_tokens);
    }
    return;
  }
}

bool Engine::CountSharedByForks(SequenceSnapshot& fork) const {
  const Sequence& prefix = Get(*fork.prefix);
  if (fork.selector < 0 || prefix.request().selector == fork.selector ||
      prefix.num_computed() < prefix.num_prompt_tokens()) {
    return false;
  }
  const SharedSummaries shared = FindForkShared(Get(fork.id).request());
  fork.shared_segments =
      selectors_->NumFullSegments(fork.selector, shared.num_tokens);
  return true;
}

// Those that begin with pages that are there have less to compute, and leave
// room for others: what was planned without that is planned again.
StepPlan Engine::AdmitAndPlan() {
  UpdateRates();
  if (slots_) slots_->MoveFrames();
  if (options_.cache_budget && slots_) slots_->DemoteAll(sequences_);
  while (true) {
    Schedule schedule = Plan(/*admits=*/true);
    if (schedule.admitted.empty()) {
      // What the disk holds is waited for.
      const int64_t num_held = disk_ ? disk_->num_held_pages() : 0;
      if (MakeRoom(schedule.num_lacking_pages - num_held)) continue;
      PreemptFor(schedule.plan);
      UseRoom(schedule.num_spare_pages);
      return std::move(schedule.plan);
    }
    for (const SequenceId id : schedule.admitted) Open(id);
    for (const SequenceId id : schedule.overtaken) Get(id).CountOvertaken();
  }
}

bool Engine::WaitsToLand(const Sequence& sequence) const {
  if (!sequence.admitted()) return false;
  const SequenceId id = sequence.id();
  return sequence.request().is_watched || sequence.layerwise() ||
         kv_.NumFar(id) > 0 || (slots_ && slots_->NumSlotKvBlocks(id) > 0);
}

// Whoever comes, is preempted or gives up pages does so when nothing is under
// way, and pages come from a disk or go to it then alone.
std::optional<StepPlan> Engine::PlanAhead() const {
  if (!looks_ahead_ || (disk_ && disk_->is_busy()) ||
      (slots_ && options_.cache_budget) ||
      std::ranges::any_of(sequences_, [this](const auto& sequence) {
        return WaitsToLand(*sequence);
      })) {
    return std::nullopt;
  }
  Schedule schedule = Plan(/*admits=*/true, &under_way_.back());
  const bool makes_room = slots_ && schedule.num_lacking_pages > 0;
  if (!schedule.admitted.empty() || makes_room || schedule.plan.empty() ||
      !schedule.plan.RunsWhole(model_.config().num_layers) ||
      !kv_.CanGrow(schedule.plan.Growths()) || !HasTablePages(schedule.plan) ||
      SelectorInNeed(schedule.plan)) {
    return std::nullopt;
  }
  return std::move(schedule.plan);
}

std::optional<int> Engine::SelectorInNeed(const StepPlan& plan) const {
  const std::vector<Growth> growths = plan.Growths();
  for (int selector = 0; selector < selectors_->size(); ++selector) {
    std::vector<Growth> totals;
    for (const Growth& growth : growths) {
      if (Get(growth.sequence).request().selector != selector) continue;
      totals.push_back({growth.sequence,
                        kv_.num_tokens(growth.sequence) + growth.num_tokens});
    }
    if (!selectors_->CanGrow(selector, totals)) return selector;
  }
  return std::nullopt;
}

int64_t Engine::NumTablePages(const Sequence& sequence,
                              const StepPlan& plan) const {
  const bool is_read = sequence.is_prefix() &&
                       sequence.num_computed() == sequence.num_prompt_tokens();
  const bool reads_by_layers =
      sequence.layerwise() && sequence.num_computed() == 0;
  if (!sequence.admitted() || is_read || reads_by_layers) return 0;
  const StepItem* item = plan.Find(sequence.id());
  const bool grows = item != nullptr && item->first_layer == 0;
  return PagesFor(int64_t{kv_.num_tokens(sequence.id())} +
                  (grows ? item->num_tokens : 0));
}

// Of all who run, as what selectors fix is kept for them by the same bound
// (NumFixedSegments).
bool Engine::HasTablePages(const StepPlan& plan) const {
  int64_t num_pages = 0;
  for (const auto& sequence : sequences_) {
    num_pages += NumTablePages(*sequence, plan);
  }
  return num_pages <= cache_->num_table_pages();
}

std::vector<SequenceSnapshot> Engine::InTheWayOf(const StepPlan& plan) const {
  const bool has_table_pages = HasTablePages(plan);
  const std::optional<int> selector = SelectorInNeed(plan);
  if (has_table_pages && !selector) return {};
  std::vector<SequenceSnapshot> sequences = Snapshots();
  std::erase_if(sequences, [&](const SequenceSnapshot& each) {
    return has_table_pages ? each.selector != *selector
                           : NumTablePages(Get(each.id), plan) == 0;
  });
  return sequences;
}

// Where whole lives are promised nobody ever lacks room. Whoever is preempted
// does not come back in the same step.
void Engine::PreemptFor(StepPlan& plan) {
  if (!host_) return;
  while (true) {
    const PageNeed need = kv_.Need(plan.Growths());
    std::vector<SequenceSnapshot> candidates;
    if (need.fits()) {
      candidates = InTheWayOf(plan);
      if (candidates.empty()) return;
    } else {
      // A slow disk delays nobody who runs.
      if (disk_ && disk_->GiveUp(need.deficit())) continue;
      if (MakeRoom(need.deficit())) continue;
      // They may have nowhere to go.
      if (disk_ && disk_->GiveUpFar()) continue;
      candidates = Snapshots();
    }
    const std::optional<SequenceId> victim = PreemptionVictim(candidates);
    if (options_.on_decision) {
      options_.on_decision(VictimDecision{std::move(candidates), victim});
    }
    CHECK(victim.has_value(), "the oldest lacks room for {}", ToString(plan));
    Preempt(*victim);
    plan = Plan(/*admits=*/false).plan;
  }
}

void Engine::Preempt(SequenceId id) {
  if (!Settle().ok() || !IsKnown(id)) return;
  Sequence& sequence = Get(id);
  if (!sequence.admitted() || sequence.is_prefix() || sequence.layerwise()) {
    return;
  }
  const int selector = sequence.request().selector;
  if (selector >= 0) selectors_->Close(selector, id);
  prefixes_->Park(sequence);
  if (slots_) slots_->Close(id);
  if (disk_) disk_->Forget(id);
  runner_->Forget(id);
  counters_.stall_ms += sequence.StopWaiting();
  sequence.Preempt();
  ++counters_.num_preemptions;
}

bool Engine::MakeRoom(int64_t num_wanted) {
  return slots_ && slots_->MakeRoom(sequences_, num_wanted);
}

void Engine::Demote(SequenceId id) {
  if (slots_ && Settle().ok() && IsKnown(id)) slots_->Demote(Get(id));
}

void Engine::Promote(SequenceId id, int64_t num_pages) {
  if (!slots_ || !Settle().ok() || !IsKnown(id)) return;
  Sequence& sequence = Get(id);
  const int64_t num_copied = slots_->Promote(sequence, num_pages);
  sequence.CountFetched(num_copied);
  counters_.num_restores += num_copied > 0;
}

void Engine::MoveFrame(SequenceId id, int from_layer, int to_layer) {
  if (slots_ && Settle().ok()) slots_->MoveFrame(id, from_layer, to_layer);
}

// A cache budget that was asked for is all that a request gets.
void Engine::UseRoom(int64_t num_spare) {
  if (!slots_ || options_.cache_budget || num_spare == 0) return;
  std::vector<PromotionOffer> offers;
  for (const auto& sequence : sequences_) {
    const int num_generated = sequence->num_generated();
    const int output =
        ExpectedOutput(outputs_, sequence->request().max_tokens, num_generated);
    const auto offer = slots_->OfferReturn(*sequence, output - num_generated);
    if (offer) offers.push_back(*offer);
  }
  const PromotionLimits limits = {
      .num_spare = num_spare,
      .max_pages =
          std::max<int64_t>(1, kPromotedStepBytes / limits_.page_bytes)};
  for (const Promotion& chosen : ChoosePromotions(offers, limits)) {
    Promote(chosen.sequence, chosen.num_pages);
  }
}

void Engine::WriteBehind() {
  kv_.WriteBehind(
      {.watermark = static_cast<int64_t>(options_.write_behind_share *
                                         static_cast<double>(num_pages_)),
       .max_pages =
           std::max<int64_t>(1, kWriteBehindBytes / limits_.page_bytes)});
}

void Engine::ReclaimIdle(int64_t num_pages) {
  while (num_pages-- > 0 && kv_.ReclaimIdle()) {
  }
}

}  // namespace winnow
