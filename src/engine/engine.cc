#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "engine/part_options.h"
#include "engine/run/read_counts.h"

namespace winnow {

Engine::Engine(const Model& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      meter_(options, model.config().num_layers,
             kPageTokens * KvBytesPerToken(model.config(), model.dtypes().kv)),
      sequence_of_([this](SequenceId id) { return sequences_.Find(id); }) {}

Result<std::unique_ptr<Engine>> Engine::Create(
    Backend& backend, const Model& model, const EngineOptions& given,
    std::unique_ptr<DiskStore> disk) {
  ASSIGN_OR_RETURN(EngineOptions options,
                   ResolveOptions(given, model.config()));
  RETURN_IF_ERROR(CheckDtypes(model.dtypes()));
  options.looks_ahead =
      options.looks_ahead.value_or(backend.attributes().runs_behind);
  ASSIGN_OR_RETURN(const KvTierOptions tier_options,
                   TierOptionsOf(options, backend, model));
  std::unique_ptr<Engine> engine(new Engine(model, options));
  StepMeter& meter = engine->meter_;
  ASSIGN_OR_RETURN(KvTiers tiers, MakeKvTiers(backend, model, tier_options,
                                              meter.decided_rates()));
  engine->residency_ = std::make_unique<Residency>(
      std::move(tiers), ResidencyOptionsOf(options),
      ResidencyLinks{.sequences = engine->sequences_,
                     .counters = meter.counted(),
                     .rates = meter.decided_rates()});
  Residency& residency = *engine->residency_;
  engine->intake_.emplace(
      RequestIntake::Links{.model = model,
                           .options = engine->options_,
                           .residency = residency,
                           .sequences = engine->sequences_});
  engine->planner_.emplace(engine->options_, model.config().num_layers,
                           Planner::Views{.sequences = engine->sequences_,
                                          .residency = residency,
                                          .meter = meter});
  ASSIGN_OR_RETURN(
      engine->runner_,
      Runner::Create(backend, model, *residency.tiers().cache,
                     *residency.tiers().selectors, engine->far_pages(),
                     RunnerOptionsOf(options)));
  const bool has_disk = disk != nullptr;
  if (has_disk) {
    RETURN_IF_ERROR(residency.AddDisk(std::move(disk), backend,
                                      DiskOptionsOf(options, backend, model)));
  }
  const HostPool& host = *residency.tiers().host;
  meter.set_may_restore(host.num_kv_blocks() > 0 || has_disk);
  Runner& runner = *engine->runner_;
  RETURN_IF_ERROR(meter.MeasureLink(
      [&](std::span<const TierCopy> copies) {
        host.Apply(runner.queue(), copies);
        return runner.Drain();
      },
      std::min(tier_options.num_pages, tier_options.num_host_pages)));
  return engine;
}

Engine::~Engine() {
  while (!sequences_.empty()) Cancel(sequences_.items().back()->id());
  // A step under way writes into memory that ends with this engine.
  if (!under_way_.empty()) (void)runner_->Drain();
}

Runner::FarPages Engine::far_pages() const {
  const KvTiers& tiers = residency_->tiers();
  if (!tiers.slots->is_there()) return {};
  return {.slots = tiers.slots.get(), .layerwise = tiers.layerwise.get()};
}

Result<SequenceId> Engine::Add(Request request, RequestObserver* observer) {
  if (failure_) return *failure_;
  return intake_->Add(std::move(request), observer);
}

Result<SequenceId> Engine::AddPrefix(Prefix prefix, RequestObserver* observer) {
  if (failure_) return *failure_;
  return intake_->AddPrefix(std::move(prefix), observer);
}

void Engine::Release(SequenceId prefix) {
  if (!sequences_.Knows(prefix)) return;
  sequences_.Get(prefix).Release();
  EndIfUnused(prefix);
}

void Engine::EndIfUnused(SequenceId prefix) {
  const Sequence* found = sequences_.Find(prefix);
  if (found == nullptr || !found->released()) return;
  const bool is_used = !sequences_.ForksOf(prefix).empty();
  if (!is_used) Finish(prefix, FinishReason::kStop);
}

void Engine::Cancel(SequenceId id) {
  if (!sequences_.Knows(id)) return;
  for (const SequenceId fork : sequences_.ForksOf(id)) {
    Finish(fork, FinishReason::kCancelled);
  }
  // A released prefix has ended with the last of them.
  if (sequences_.Knows(id)) Finish(id, FinishReason::kCancelled);
}

void Engine::Finish(SequenceId id, FinishReason reason,
                    std::optional<Error> error) {
  Sequence& sequence = sequences_.Get(id);
  meter_.counted().stall_ms += sequence.StopWaiting();
  Completion completion = sequence.Complete(reason, model_.config().num_layers);
  completion.error = std::move(error);
  // A step that failed, or drew nothing, may have left anything.
  const bool leaves_pages =
      reason != FinishReason::kError ||
      (completion.error && completion.error->code == ErrorCode::kCancelled);
  const bool is_under_way = std::ranges::any_of(
      under_way_,
      [id](const StepPlan& plan) { return plan.Find(id) != nullptr; });
  const HeldKv held = residency_->Close(
      sequence, {.is_under_way = is_under_way, .leaves_pages = leaves_pages});
  if (sequence.admitted()) runner_->Forget(id);
  completion.kv.device_bytes = held.device_bytes;
  completion.kv.host_bytes = held.host_bytes;
  completion.kv.fetched_bytes +=
      sequence.num_fetched_pages() * residency_->page_bytes();
  completion.kv.stall_ms += meter_.LinkMs(completion.kv.fetched_bytes);
  const bool has_ended =
      reason == FinishReason::kStop || reason == FinishReason::kLength;
  if (has_ended && !sequence.is_prefix()) {
    planner_->CountOutput(sequence.num_generated());
  }
  RequestObserver& observer = sequence.observer();
  const std::optional<SequenceId> prefix = sequence.request().prefix;
  sequences_.Remove(id);
  observer.OnFinish(completion);
  if (prefix) EndIfUnused(*prefix);
}

// Pages that the failed step took and did not seal end with the sequences.
void Engine::Fail(const Error& error) {
  failure_ = error;
  under_way_.clear();
  while (!sequences_.empty()) {
    Finish(sequences_.items().front()->id(), FinishReason::kError, error);
  }
  residency_->disk().Abandon();
}

void Engine::Preempt(SequenceId id) {
  if (!Settle().ok() || !sequences_.Knows(id)) return;
  Sequence& sequence = sequences_.Get(id);
  const bool stays = sequence.is_prefix() || sequence.layerwise();
  if (stays || !sequence.admitted()) return;
  residency_->Preempt(sequence);
  runner_->Forget(id);
}

void Engine::Demote(SequenceId id) {
  if (!Settle().ok() || !sequences_.Knows(id)) return;
  residency_->tiers().slots->Demote(sequences_.Get(id));
}

void Engine::Promote(SequenceId id, int64_t num_pages) {
  if (!Settle().ok() || !sequences_.Knows(id)) return;
  residency_->Promote(sequences_.Get(id), num_pages);
}

void Engine::MoveFrame(SequenceId id, int from_layer, int to_layer) {
  if (!Settle().ok()) return;
  residency_->tiers().slots->MoveFrame(id, from_layer, to_layer);
}

void Engine::ReclaimIdle(int64_t num_pages) {
  while (num_pages-- > 0 && residency_->tiers().kv->ReclaimIdle()) {
  }
}

// Sequences that begin with pages that are there have less to compute, and
// leave room for others: what was planned without that is planned again.
StepPlan Engine::AdmitAndPlan() {
  const DiskTier& disk = residency_->disk();
  meter_.UpdateRates(disk.counts(), Sequence::Clock::now());
  residency_->Rebalance();
  while (true) {
    Schedule schedule = planner_->Plan(/*admits=*/true);
    if (schedule.admitted.empty()) {
      // Pages that the disk holds come free once they are written.
      const int64_t num_held = disk.num_held_pages();
      if (residency_->MakeRoom(schedule.num_lacking_pages - num_held)) continue;
      PreemptFor(schedule.plan);
      for (const Promotion& chosen :
           planner_->Promotions(schedule.num_spare_pages)) {
        residency_->Promote(sequences_.Get(chosen.sequence), chosen.num_pages);
      }
      return std::move(schedule.plan);
    }
    for (const SequenceId id : schedule.admitted) {
      residency_->Open(runner_->queue(), sequences_.Get(id));
    }
    for (const SequenceId id : schedule.overtaken) {
      sequences_.Get(id).CountOvertaken();
    }
  }
}

// Where whole lives are promised, as without a host, no sequence lacks room. A
// sequence that is preempted does not come back in the same step.
void Engine::PreemptFor(StepPlan& plan) {
  if (kv().num_host_pages() == 0) return;
  while (true) {
    const PageNeed need = kv().Need(plan.Growths());
    std::vector<SequenceSnapshot> candidates;
    if (need.fits()) {
      candidates = planner_->InTheWayOf(plan);
      if (candidates.empty()) return;
    } else {
      if (residency_->MakeRoomForPlan(need.deficit())) continue;
      candidates = planner_->Snapshots();
    }
    Preempt(planner_->Victim(std::move(candidates), plan));
    plan = planner_->Plan(/*admits=*/false).plan;
  }
}

Result<bool> Engine::Step() {
  ASSIGN_OR_RETURN(const Progress progress, TryStep());
  if (progress == Progress::kWaitsForDisk) {
    residency_->PollDisk(runner_->queue(), /*wait=*/true);
  }
  return progress != Progress::kNothingLeft;
}

Result<Engine::Progress> Engine::TryStep() {
  if (failure_) return *failure_;
  residency_->PollDisk(runner_->queue(), /*wait=*/false);
  for (const SequenceId id : planner_->Expired(Sequence::Clock::now())) {
    Finish(id, FinishReason::kError, sequences_.Get(id).Lateness());
  }
  // A step all of whose sequences have ended is waited for at once.
  if (!under_way_.empty() && !sequences_.KnowsAnyOf(under_way_.front())) {
    RETURN_IF_ERROR(Settle());
  }
  if (sequences_.empty()) return TendDisk();
  if (under_way_.empty()) {
    // Time in which nothing ran belongs to no step.
    if (ran_nothing_ || !sequences_.AnyWaitsForOne()) {
      meter_.BeginStep(Sequence::Clock::now());
    }
    StepPlan plan = AdmitAndPlan();
    ran_nothing_ = plan.empty();
    if (ran_nothing_) return TendWithoutStep();
    if (!plan.RunsWhole(model_.config().num_layers)) {
      residency_->Prepare(runner_->queue(), plan, /*shares=*/false);
      RETURN_IF_ERROR(Land(plan, runner_->Run(plan, kv(), sequence_of_)));
      return Progress::kGoesOn;
    }
    Launch(std::move(plan));
    runner_->Draw(sequence_of_);
  }
  if (std::optional<StepPlan> ahead = planner_->PlanAhead(under_way_.back())) {
    Launch(*std::move(ahead));
  }
  RETURN_IF_ERROR(LandFirst());
  return Progress::kGoesOn;
}

Result<Engine::Progress> Engine::TendWithoutStep() {
  ASSIGN_OR_RETURN(const Progress progress, TendDisk());
  if (progress != Progress::kNothingLeft) return progress;
  // A prefix that is held may be released yet, and so is waited for.
  const bool held = std::ranges::any_of(sequences_, [](const auto& sequence) {
    return sequence->is_prefix() && !sequence->released();
  });
  if (held) return Progress::kNothingLeft;
  GiveUpOldest();
  return Progress::kGoesOn;
}

// A request that fits the pool alone is admitted when it is alone (CheckRoom).
// So here a bug keeps room from all that wait. It costs the oldest request, and
// perhaps the next, but neither the process nor those that run.
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
      sequence.tokens().size(), sequence.num_computed(), kv().num_free_pages(),
      kv().num_pages(), kv().num_available_host_pages(), kv().num_host_pages());
  ++meter_.counted().num_given_up;
  Finish(sequence.id(), FinishReason::kError, std::move(error));
}

void Engine::Launch(StepPlan plan) {
  residency_->Prepare(runner_->queue(), plan, /*shares=*/under_way_.empty());
  runner_->Launch(plan, kv(), sequence_of_);
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

Result<Engine::Progress> Engine::TendDisk() {
  const DiskTier& disk = residency_->disk();
  if (!disk.is_busy()) return Progress::kNothingLeft;
  residency_->CopyForDisk(runner_->queue());
  if (const Status drained = runner_->Drain(); !drained.ok()) {
    Fail(drained.error());
    return *failure_;
  }
  if (residency_->LandDiskCopies()) return Progress::kGoesOn;
  return disk.is_waiting() ? Progress::kWaitsForDisk : Progress::kGoesOn;
}

// Rows of requests that have ended meanwhile count for no sequence.
Status Engine::Land(const StepPlan& plan, const Result<StepOutput>& output) {
  if (!output.ok()) {
    Fail(output.error());
    return *failure_;
  }
  meter_.CountStep(plan, Sequence::Clock::now());
  residency_->disk().LandCopies();
  LandRows(plan, *output);
  for (const ScoredToken& scored : output->scored) {
    if (!sequences_.Knows(scored.sequence)) continue;
    sequences_.Get(scored.sequence).TakeScored(scored.token);
  }
  for (const DrawnToken& token : output->drawn) {
    if (sequences_.Knows(token.sequence)) LandDrawn(token);
  }
  return Ok{};
}

void Engine::LandRows(const StepPlan& plan, const StepOutput& output) {
  const int num_layers = model_.config().num_layers;
  std::span<const float> shares = output.read_shares;
  for (size_t i = 0; i < plan.items.size(); ++i) {
    const StepItem& item = plan.items[i];
    const auto num_rows =
        std::min(shares.size(), static_cast<size_t>(item.num_tokens));
    const std::span<const float> own = shares.first(num_rows);
    shares = shares.subspan(num_rows);
    if (item.end_layer == num_layers) {
      meter_.counted().num_rows += item.num_tokens;
    }
    const FetchedPieces brought =
        i < output.brought.size() ? output.brought[i] : FetchedPieces();
    meter_.counted().brought += brought;
    if (!sequences_.Knows(item.sequence)) continue;
    Sequence& sequence = sequences_.Get(item.sequence);
    residency_->CountCopies(item, brought, sequence);
    CountReads(model_.config(), selectors(), item, own, sequence);
    sequence.Land(item, num_layers);
    residency_->Seal(item, sequence);
  }
}

void Engine::LandDrawn(const DrawnToken& token) {
  if (token.error) {
    return Finish(token.sequence, FinishReason::kError, token.error);
  }
  Sequence& sequence = sequences_.Get(token.sequence);
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
    residency_->Enter(sequence);  // Its prompt is read, and not by NaN.
  }
}

}  // namespace winnow
