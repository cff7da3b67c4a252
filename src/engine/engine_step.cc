// The engine's step: launched, drawn and landed, perhaps behind another one.
#include <algorithm>
#include <utility>

#include "engine/engine.h"

namespace winnow {

Result<bool> Engine::Step() {
  ASSIGN_OR_RETURN(const Progress progress, TryStep());
  if (progress == Progress::kWaitsForDisk) PollDisk(/*wait=*/true);
  return progress != Progress::kNothingLeft;
}

Result<Engine::Progress> Engine::TryStep() {
  if (failure_) return *failure_;
  if (disk_) PollDisk(/*wait=*/false);
  EndExpired();
  // Where all have ended whose rows are under way, nobody waits for them.
  const bool any_wait =
      !under_way_.empty() &&
      std::ranges::any_of(under_way_.front().items, [this](const auto& item) {
        return IsKnown(item.sequence);
      });
  if (!any_wait) RETURN_IF_ERROR(Settle());
  if (sequences_.empty()) return TendDisk();
  if (under_way_.empty()) {
    // What nothing ran in was no step's.
    if (ran_nothing_ ||
        std::ranges::none_of(sequences_, [](const auto& sequence) {
          return sequence->waits_for_one();
        })) {
      step_begun_ = Sequence::Clock::now();
    }
    StepPlan plan = AdmitAndPlan();
    ran_nothing_ = plan.empty();
    if (ran_nothing_) return TendWithoutStep();
    Prepare(plan);
    if (!plan.RunsWhole(model_.config().num_layers)) {
      RETURN_IF_ERROR(Land(plan, runner_->Run(plan, kv_, sequence_of_)));
      return Progress::kGoesOn;
    }
    Launch(std::move(plan));
    runner_->Draw(sequence_of_);
  }
  if (std::optional<StepPlan> ahead = PlanAhead()) {
    Prepare(*ahead);
    Launch(*std::move(ahead));
  }
  RETURN_IF_ERROR(LandFirst());
  return Progress::kGoesOn;
}

Result<Engine::Progress> Engine::TendWithoutStep() {
  ASSIGN_OR_RETURN(const Progress progress, TendDisk());
  if (progress != Progress::kNothingLeft) return progress;
  // Who holds a prefix may release it, and is waited for.
  const bool held = std::any_of(
      sequences_.begin(), sequences_.end(), [](const auto& sequence) {
        return sequence->is_prefix() && !sequence->released();
      });
  if (held) return Progress::kNothingLeft;
  GiveUpOldest();
  return Progress::kGoesOn;
}

// Whatever fits the pool alone is admitted when it is alone (CheckRoom), so
// here a bug keeps room from all who wait. It costs the one that has waited
// longest, and perhaps the next, but neither the process nor those that run.
void Engine::GiveUpOldest() {
  const auto oldest = std::ranges::find_if(
      sequences_, [](const auto& sequence) { return !sequence->is_prefix(); });
  CHECK(oldest != sequences_.end(), "sequences={}", sequences_.size());
  const Sequence& sequence = **oldest;
  Error error = MakeError(
      ErrorCode::kResourceExhausted,
      "the request has room of its own alone and still cannot run, and nothing "
      "runs that it could wait for: {} tokens, {} computed, {} of {} pages "
      "free on the device, {} of {} on the host",
      sequence.tokens().size(), sequence.num_computed(), kv_.num_free_pages(),
      kv_.num_pages(), kv_.num_available_host_pages(), kv_.num_host_pages());
  ++counters_.num_given_up;
  Finish(sequence.id(), FinishReason::kError, std::move(error));
}

void Engine::Prepare(const StepPlan& plan) {
  if (disk_) CopyForDisk();
  if (host_) WriteBehind();
  const std::vector<Growth> growths = plan.Growths();
  std::optional<Reservation> pages = kv_.Reserve(growths);
  CHECK(pages.has_value(), "promised pages are missing for {}", ToString(plan));
  if (host_) CopyTiers(*host_, kv_.TakeTierCopies());
  runner_->CopyPages(pages->copies());
  pages->Commit();  // The space is ours; its content is not yet true.
  GrowSummaries(plan);
}

void Engine::GrowSummaries(const StepPlan& plan) {
  const bool shares =
      under_way_.empty() && plan.RunsWhole(model_.config().num_layers);
  std::vector<SequenceId> makers;
  for (const auto& [id, num_tokens] : plan.Growths()) {
    const int selector = Get(id).request().selector;
    if (selector < 0) continue;
    if (shares) selectors_->ShareInStep(selector, id, kv_, makers);
    runner_->GrowSummaries(selector, id, kv_.num_tokens(id));
    makers.push_back(id);
  }
}

void Engine::Launch(StepPlan plan) {
  runner_->Launch(plan, kv_, sequence_of_);
  under_way_.push_back(std::move(plan));
}

Status Engine::LandFirst() {
  const StepPlan plan = std::move(under_way_.front());
  under_way_.pop_front();
  RETURN_IF_ERROR(Land(plan, runner_->Collect()));
  if (!under_way_.empty()) runner_->Draw(sequence_of_);
  return Ok{};
}

Status Engine::Settle() {
  while (!under_way_.empty()) RETURN_IF_ERROR(LandFirst());
  return Ok{};
}

bool Engine::IsUnderWay(SequenceId id) const {
  return std::ranges::any_of(under_way_, [id](const StepPlan& plan) {
    return plan.Find(id) != nullptr;
  });
}

// Where no selector chooses, all that a layer's window shows is read.
// `shares`: of the item's rows.
void Engine::CountReads(const StepItem& item, std::span<const float> shares,
                        Sequence& sequence) const {
  const int first = std::max(
      {item.first_token, sequence.num_prefill_rows(), sequence.num_counted()});
  const int end = item.first_token + item.num_tokens;
  const int selector = sequence.request().selector;
  int num_chosen_layers = 0;
  for (int layer = item.first_layer; layer < item.end_layer; ++layer) {
    if (selector >= 0 &&
        selectors_->selector(selector).ForLayer(layer) != nullptr) {
      ++num_chosen_layers;
      continue;
    }
    const int window = model_.config().windows[static_cast<size_t>(layer)];
    for (int context = first + 1; context <= end; ++context) {
      const int read = window > 0 ? std::min(window, context) : context;
      sequence.CountReads(static_cast<double>(read) / context, context, 1);
    }
  }
  if (num_chosen_layers == 0) return;
  for (int token = first; token < end; ++token) {
    sequence.CountReads(shares[static_cast<size_t>(token - item.first_token)],
                        token + 1, num_chosen_layers);
  }
}

// What of the step is of requests that have ended meanwhile is nobody's.
Status Engine::Land(const StepPlan& plan, const Result<StepOutput>& output) {
  if (!output.ok()) {
    Fail(output.error());
    return *failure_;
  }
  CountTime(plan);
  if (disk_) disk_->LandCopies();
  LandRows(plan, *output);
  for (const ScoredToken& scored : output->scored) {
    if (!IsKnown(scored.sequence)) continue;
    Get(scored.sequence).TakeScored(scored.token);
  }
  for (const DrawnToken& token : output->drawn) {
    if (IsKnown(token.sequence)) LandDrawn(token);
  }
  return Ok{};
}

void Engine::LandRows(const StepPlan& plan, const StepOutput& output) {
  std::span<const float> shares = output.read_shares;
  for (size_t i = 0; i < plan.items.size(); ++i) {
    const StepItem& item = plan.items[i];
    const auto num_rows =
        std::min(shares.size(), static_cast<size_t>(item.num_tokens));
    const std::span<const float> own = shares.first(num_rows);
    shares = shares.subspan(num_rows);
    if (item.end_layer == model_.config().num_layers) {
      counters_.num_rows += item.num_tokens;
    }
    if (i < output.brought.size()) counters_.brought += output.brought[i];
    if (!IsKnown(item.sequence)) continue;
    Sequence& sequence = Get(item.sequence);
    if (item.layerwise) CountLayerCopies(item, sequence);
    if (i < output.brought.size()) {
      sequence.CountBrought(output.brought[i]);
      slots_->CountBrought(item.sequence, output.brought[i],
                           item.end_layer == model_.config().num_layers);
    }
    CountReads(item, own, sequence);
    LandItem(item, sequence);
  }
}

void Engine::LandItem(const StepItem& item, Sequence& sequence) {
  sequence.Land(item, model_.config().num_layers);
  if (item.layerwise && sequence.num_computed() > 0) {
    layerwise_->End(sequence);
  }
  kv_.Seal(item.sequence, sequence.num_computed());
  // Of a chunk between two layer ranges nothing is there in all layers.
  if (item.end_layer < model_.config().num_layers) return;
  const int selector = sequence.request().selector;
  if (selector >= 0) {
    selectors_->Seal(selector, item.sequence, sequence.num_computed());
  }
}

void Engine::LandDrawn(const DrawnToken& token) {
  if (token.error) {
    return Finish(token.sequence, FinishReason::kError, token.error);
  }
  Sequence& sequence = Get(token.sequence);
  if (token.token.token_id < 0) {
    // Weights that make no numbers; no bias can mask a whole vocabulary, and
    // a constraint that does has said so.
    return Finish(token.sequence, FinishReason::kError,
                  MakeError(ErrorCode::kCorrupt,
                            "no token is left to draw at position {}: every "
                            "logit is NaN, -infinity or masked",
                            sequence.tokens().size()));
  }
  FinishReason reason;
  if (sequence.Take(token.token, &reason)) {
    Finish(token.sequence, reason);
  } else if (sequence.num_generated() == 1) {
    prefixes_->Enter(sequence);  // Its prompt is read, and not by NaN.
    if (disk_) disk_->Keep(disk_->TextOf(sequence));
  }
}

}  // namespace winnow
