#include "engine/planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace winnow {

// Where there is a host whole lives need not be promised.
std::vector<SequenceSnapshot> Planner::Snapshots(
    const StepPlan* under_way) const {
  std::vector<SequenceSnapshot> snapshots;
  for (const auto& sequence : views_.sequences) {
    const StepItem* item =
        under_way == nullptr ? nullptr : under_way->Find(sequence->id());
    if (item != nullptr && sequence->EndsWith(*item)) continue;
    const Request& request = sequence->request();
    SequenceSnapshot& snapshot = snapshots.emplace_back(
        item == nullptr ? sequence->Snapshot()
                        : sequence->SnapshotAfter(*item));
    snapshot.selector = request.selector;
    snapshot.needs_all_layers =
        request.selector >= 0 &&
        tiers().selectors->selector(request.selector).reuses();
    CountSegments(*sequence, request.max_tokens, snapshot);
    if (sequence->layerwise()) {
      CountLayerwise(*sequence, snapshot);
      continue;
    }
    const int64_t num_saved = tiers().slots->NumSaved(sequence->id());
    if (request.prefix) snapshot.life_pages -= num_saved;
    if (!has_host() || sequence->is_prefix() || request.prefix) continue;
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
void Planner::CountSegments(const Sequence& sequence, int num_outputs,
                            SequenceSnapshot& snapshot) const {
  const Request& request = sequence.request();
  if (request.selector < 0) return;
  const int64_t num_prompt_tokens = sequence.num_prompt_tokens();
  const int64_t num_tokens = sequence.is_prefix()
                                 ? num_prompt_tokens
                                 : num_prompt_tokens + num_outputs - 1;
  snapshot.num_segments =
      tiers().selectors->NumSegments(request.selector, num_tokens);
  if (!request.prefix || sequence.admitted()) return;
  const Sequence& prefix = views_.sequences.Get(*request.prefix);
  if (prefix.request().selector != request.selector) return;
  snapshot.shared_segments = tiers().selectors->NumFullSegments(
      request.selector, prefix.num_prompt_tokens());
}

void Planner::CountLayerwise(const Sequence& sequence,
                             SequenceSnapshot& snapshot) const {
  const Request& request = sequence.request();
  const LayerCapacity room = tiers().layerwise->RoomOf(request);
  const bool is_read = sequence.num_computed() > 0;
  snapshot.life_pages = is_read ? room.num_decoding() : room.num_most();
  if (!sequence.admitted()) {
    snapshot.host_pages = tiers().layerwise->NumFarPages(request);
  }
}

Schedule Planner::Plan(bool admits, const StepPlan* under_way) const {
  ScheduleInput input;
  input.admits = admits;
  input.limits = {.max_num_seqs = options_.max_num_seqs,
                  .max_num_batched_tokens = options_.max_num_batched_tokens,
                  .num_layers = num_layers_,
                  .layers_per_step = options_.layers_per_step,
                  .num_pages = tiers().kv->num_pages(),
                  .num_free_host_pages = tiers().kv->num_available_host_pages(),
                  .num_table_pages = tiers().cache->num_table_pages(),
                  .max_step_ms = options_.max_step_ms};
  input.limits.num_pages -= views_.residency.disk().num_held_pages();
  input.num_segments = tiers().selectors->NumPromisableSegments();
  input.sequences = Snapshots(under_way);
  if (admits) CountShared(input);
  input.cost = views_.meter.cost();
  Schedule schedule = PlanStep(input);
  if (options_.on_decision) {
    options_.on_decision(ScheduleDecision{std::move(input), schedule});
  }
  return schedule;
}

// Looks up shared pages for the first waiting sequence alone, where its turn
// may have come. No sequence overtakes the first one, and a look-up for each
// would cost more the longer the queue is. Forks may overtake: the first fork
// whose prefix has no summaries is looked up too.
void Planner::CountShared(ScheduleInput& input) const {
  input.repeated_pages = tiers().kv->prefixes().num_repeated();
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
    // Cached pages do not lessen the loan of a layerwise request.
    if (first.layerwise) return;
    const std::vector<KvBlockId> near =
        tiers().prefixes->NearPages(views_.sequences.Get(first.id));
    first.shared_pages = tiers().kv->prefixes().NumUsed(near);
    if (first.selector >= 0) {
      const SharedSummaries shared =
          tiers().selectors->FindShared(first.selector, *tiers().kv, near);
      first.shared_segments =
          tiers().selectors->NumFullSegments(first.selector, shared.num_tokens);
    }
    return;
  }
}

bool Planner::CountSharedByForks(SequenceSnapshot& fork) const {
  const Sequence& prefix = views_.sequences.Get(*fork.prefix);
  if (fork.selector < 0 || prefix.request().selector == fork.selector ||
      prefix.num_computed() < prefix.num_prompt_tokens()) {
    return false;
  }
  const SharedSummaries shared =
      views_.residency.FindForkShared(views_.sequences.Get(fork.id).request());
  fork.shared_segments =
      tiers().selectors->NumFullSegments(fork.selector, shared.num_tokens);
  return true;
}

// A sequence that starts, is preempted or gives up pages does so when nothing
// is under way. Pages come from a disk, or go to it, then alone.
std::optional<StepPlan> Planner::PlanAhead(const StepPlan& under_way) const {
  const Residency& residency = views_.residency;
  if (!*options_.looks_ahead || residency.disk().is_busy() ||
      options_.cache_budget ||
      std::ranges::any_of(views_.sequences, [&](const auto& sequence) {
        return residency.WaitsToLand(*sequence);
      })) {
    return std::nullopt;
  }
  Schedule schedule = Plan(/*admits=*/true, &under_way);
  const StepPlan& plan = schedule.plan;
  const bool makes_room =
      tiers().slots->is_there() && schedule.num_lacking_pages > 0;
  if (!schedule.admitted.empty() || makes_room || plan.empty() ||
      !plan.RunsWhole(num_layers_) || !tiers().kv->CanGrow(plan.Growths()) ||
      !HasTablePages(plan) || SelectorInNeed(plan)) {
    return std::nullopt;
  }
  return std::move(schedule.plan);
}

std::optional<int> Planner::SelectorInNeed(const StepPlan& plan) const {
  const std::vector<Growth> growths = plan.Growths();
  for (int selector = 0; selector < tiers().selectors->size(); ++selector) {
    std::vector<Growth> totals;
    for (const Growth& growth : growths) {
      if (views_.sequences.Get(growth.sequence).request().selector != selector)
        continue;
      totals.push_back(
          {growth.sequence,
           tiers().kv->num_tokens(growth.sequence) + growth.num_tokens});
    }
    if (!tiers().selectors->CanGrow(selector, totals)) return selector;
  }
  return std::nullopt;
}

int64_t Planner::NumTablePages(const Sequence& sequence,
                               const StepPlan& plan) const {
  const bool is_read = sequence.is_prefix() &&
                       sequence.num_computed() == sequence.num_prompt_tokens();
  const bool reads_by_layers =
      sequence.layerwise() && sequence.num_computed() == 0;
  if (!sequence.admitted() || is_read || reads_by_layers) return 0;
  const StepItem* item = plan.Find(sequence.id());
  const bool grows = item != nullptr && item->first_layer == 0;
  return PagesFor(int64_t{tiers().kv->num_tokens(sequence.id())} +
                  (grows ? item->num_tokens : 0));
}

// Of all who run, as what selectors fix is kept for them by the same bound
// (NumFixedSegments).
bool Planner::HasTablePages(const StepPlan& plan) const {
  int64_t num_pages = 0;
  for (const auto& sequence : views_.sequences) {
    num_pages += NumTablePages(*sequence, plan);
  }
  return num_pages <= tiers().cache->num_table_pages();
}

std::vector<SequenceSnapshot> Planner::InTheWayOf(const StepPlan& plan) const {
  const bool has_table_pages = HasTablePages(plan);
  const std::optional<int> selector = SelectorInNeed(plan);
  if (has_table_pages && !selector) return {};
  std::vector<SequenceSnapshot> sequences = Snapshots();
  std::erase_if(sequences, [&](const SequenceSnapshot& each) {
    return has_table_pages
               ? each.selector != *selector
               : NumTablePages(views_.sequences.Get(each.id), plan) == 0;
  });
  return sequences;
}

SequenceId Planner::Victim(std::vector<SequenceSnapshot> candidates,
                           const StepPlan& plan) const {
  const std::optional<SequenceId> victim = PreemptionVictim(candidates);
  if (options_.on_decision) {
    options_.on_decision(VictimDecision{std::move(candidates), victim});
  }
  CHECK(victim.has_value(), "the oldest lacks room for {}", ToString(plan));
  return *victim;
}

// A cache budget that was asked for is all that a request gets.
std::vector<Promotion> Planner::Promotions(int64_t num_spare) const {
  if (options_.cache_budget || num_spare == 0) return {};
  std::vector<PromotionOffer> offers;
  for (const auto& sequence : views_.sequences) {
    const int num_generated = sequence->num_generated();
    const int output =
        ExpectedOutput(outputs_, sequence->request().max_tokens, num_generated);
    const auto offer =
        tiers().slots->OfferReturn(*sequence, output - num_generated);
    if (offer) offers.push_back(*offer);
  }
  const PromotionLimits limits = {
      .num_spare = num_spare,
      .max_pages = std::max<int64_t>(
          1, kPromotedStepBytes / views_.residency.page_bytes())};
  return ChoosePromotions(offers, limits);
}

std::vector<SequenceId> Planner::Expired(
    Sequence::Clock::time_point now) const {
  const bool any = std::ranges::any_of(views_.sequences, [](const auto& each) {
    return each->request().deadline.has_value();
  });
  if (!any) return {};
  std::vector<SequenceSnapshot> snapshots = Snapshots();
  const std::vector<SequenceId> expired = ExpiredSequences(snapshots, now);
  if (!expired.empty() && options_.on_decision) {
    options_.on_decision(ExpiryDecision{std::move(snapshots), now, expired});
  }
  return expired;
}

void Planner::CountOutput(int num_tokens) {
  ++outputs_.num_requests;
  outputs_.num_tokens += num_tokens;
}

}  // namespace winnow
