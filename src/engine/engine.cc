#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/size_text.h"
#include "model/forward/rope.h"

namespace winnow {

Engine::Engine(Backend& backend, const Model& model,
               const EngineOptions& options, std::unique_ptr<DeviceCache> cache,
               std::unique_ptr<HostPool> host)
    : backend_(backend),
      model_(model),
      options_(options),
      num_pages_(cache->pool().options().num_kv_blocks),
      limits_({.vocab_size = model.config().vocab_size,
               .max_model_len = options.max_model_len,
               .num_selectors = static_cast<int>(options.selectors.size()),
               .num_pages = num_pages_,
               .page_bytes = kPageTokens *
                             KvBytesPerToken(model.config(), model.dtypes().kv),
               .scores_prompts = options.max_scored_rows > 0}),
      cache_(std::move(cache)),
      host_(std::move(host)),
      kv_(num_pages_, kPageTokens, host_ ? host_->num_kv_blocks() : 0),
      looks_ahead_(
          options.looks_ahead.value_or(backend.attributes().runs_behind)),
      sequence_of_([this](SequenceId id) { return Find(id); }),
      disk_patience_(options.disk_patience) {}

Engine::~Engine() {
  while (!sequences_.empty()) Cancel(sequences_.back()->id());
  // What it writes lives no longer than this.
  if (!under_way_.empty()) (void)runner_->Drain();
}

int64_t Engine::device_kv_bytes() const {
  return num_pages_ * limits_.page_bytes;
}

bool Engine::ActsInPrompt(int selector) const {
  return selector >= 0 &&
         BelongsToPrompt(selectors_->selector(selector).program);
}

void Engine::CheckForkable(const Request& request,
                           const Sequence& prefix) const {
  const int of_prefix = prefix.request().selector;
  CHECK(request.selector == of_prefix ||
            !(ActsInPrompt(request.selector) || ActsInPrompt(of_prefix)),
        "selector={} of the fork, {} of the prefix", request.selector,
        of_prefix);
  CHECK(prefix.is_prefix() && !prefix.released(),
        "sequence={} is no prefix, or released", prefix.id().value());
}

RequestRope Engine::RopeFor(int64_t planned_tokens) const {
  const RopeConfig& config = model_.config().rope;
  RequestRope rope;
  rope.inverse_frequencies.resize(static_cast<size_t>(config.rotary_dim / 2));
  RopeFrequencies(config, planned_tokens, rope.inverse_frequencies,
                  &rope.scale);
  return rope;
}

Status Engine::CheckWatch(const Request& request, bool is_layerwise) const {
  if (request.is_watched && is_layerwise) {
    const int64_t num_tokens =
        std::ssize(request.prompt) + request.max_tokens - 1;
    return MakeError(
        ErrorCode::kInvalidArgument,
        "KV of a watched request must be at most {} (device-kv), "
        "as a larger one is read layer by layer, is {} ({} tokens: "
        "a prompt of {} and max-tokens)",
        FormatBytes(device_kv_bytes()),
        FormatBytes(PagesFor(num_tokens) * limits_.page_bytes), num_tokens,
        request.prompt.size());
  }
  const auto num_watched = std::ranges::count_if(
      sequences_,
      [](const auto& other) { return other->request().is_watched; });
  if (!request.is_watched || num_watched < options_.max_watched_requests) {
    return Ok{};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "watched requests at once must be at most {}, are {}",
                   options_.max_watched_requests, num_watched + 1);
}

bool Engine::IsLayerwise(const Request& request) const {
  return layerwise_ && layerwise_->Takes(request);
}

Status Engine::CheckFits(const Request& request, bool is_layerwise) const {
  if (is_layerwise) return layerwise_->Check(request);
  Status room = limits_.CheckRoom(request);
  if (room.ok() || !layerwise_) return room;
  Error error = room.error();
  error.message += layerwise_->WayOut(request);
  return error;
}

Status Engine::Check(const Request& request) const {
  CHECK(!request.prefix, "prefix={}", request.prefix->value());
  RETURN_IF_ERROR(limits_.Check(request));
  Request fitted = request;
  FitMaxTokens(fitted);
  return CheckFits(fitted, IsLayerwise(fitted));
}

void Engine::FitMaxTokens(Request& request) const {
  if (!request.may_get_fewer) return;
  const int asked = request.max_tokens;
  const auto fits = [&](int max_tokens) {
    request.max_tokens = max_tokens;
    return CheckFits(request, IsLayerwise(request)).ok();
  };
  int most = std::max(1, request.min_tokens);
  if (!fits(asked) && fits(most)) {
    for (int end = asked; end - most > 1;) {
      const int middle = most + (end - most) / 2;
      (fits(middle) ? most : end) = middle;
    }
    request.max_tokens = most;
  } else {
    request.max_tokens = asked;
  }
}

Result<SequenceId> Engine::Add(Request request, RequestObserver* observer) {
  if (failure_) return *failure_;
  RETURN_IF_ERROR(limits_.Check(request));
  FitMaxTokens(request);
  const bool is_layerwise = IsLayerwise(request);
  RETURN_IF_ERROR(CheckFits(request, is_layerwise));
  RETURN_IF_ERROR(CheckWatch(request, is_layerwise));
  if (request.prefix) {
    const Sequence& prefix = Get(*request.prefix);
    CheckForkable(request, prefix);
    RETURN_IF_ERROR(RequestLimits::CheckFork(request, prefix));
    const SequenceId id(next_id_++);
    sequences_.push_back(
        Sequence::MakeFork(id, std::move(request), prefix, observer));
    return id;
  }
  RequestRope rope = RopeFor(std::max<int64_t>(
      std::ssize(request.prompt) + request.max_tokens, request.planned_tokens));
  const SequenceId id(next_id_++);
  sequences_.push_back(std::make_unique<Sequence>(id, std::move(request),
                                                  std::move(rope), observer));
  if (is_layerwise) sequences_.back()->ReadByLayers();
  return id;
}

Result<SequenceId> Engine::AddPrefix(Prefix prefix, RequestObserver* observer) {
  if (failure_) return *failure_;
  RETURN_IF_ERROR(limits_.Check(prefix));
  const auto num_held = std::count_if(
      sequences_.begin(), sequences_.end(), [](const auto& other) {
        return other->is_prefix() && other->request().selector >= 0;
      });
  if (prefix.selector >= 0 && num_held >= options_.max_num_seqs) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "prefixes with a selector must be at most max-num-seqs "
                     "({}) at once, are {}",
                     options_.max_num_seqs, num_held + 1);
  }
  RequestRope rope = RopeFor(prefix.max_length);
  const SequenceId id(next_id_++);
  sequences_.push_back(
      Sequence::MakePrefix(id, std::move(prefix), std::move(rope), observer));
  return id;
}

const Sequence* Engine::Find(SequenceId id) const {
  const auto found = std::ranges::lower_bound(
      sequences_, id, {}, [](const auto& sequence) { return sequence->id(); });
  const bool known = found != sequences_.end() && (*found)->id() == id;
  return known ? found->get() : nullptr;
}

bool Engine::IsKnown(SequenceId id) const { return Find(id) != nullptr; }

const Sequence& Engine::Get(SequenceId id) const {
  const Sequence* found = Find(id);
  CHECK(found != nullptr, "sequence={}", id.value());
  return *found;
}

Sequence& Engine::Get(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).Get(id));
}

void Engine::Release(SequenceId prefix) {
  if (!IsKnown(prefix)) return;
  Get(prefix).Release();
  EndIfUnused(prefix);
}

void Engine::EndIfUnused(SequenceId prefix) {
  if (!IsKnown(prefix) || !Get(prefix).released()) return;
  const bool used = std::any_of(sequences_.begin(), sequences_.end(),
                                [prefix](const auto& other) {
                                  return other->request().prefix == prefix;
                                });
  if (!used) Finish(prefix, FinishReason::kStop);
}

void Engine::Cancel(SequenceId id) {
  if (!IsKnown(id)) return;
  std::vector<SequenceId> forks;
  for (const auto& sequence : sequences_) {
    if (sequence->request().prefix == id) forks.push_back(sequence->id());
  }
  for (const SequenceId fork : forks) Finish(fork, FinishReason::kCancelled);
  // A released prefix has ended with the last of them.
  if (IsKnown(id)) Finish(id, FinishReason::kCancelled);
}

void Engine::Finish(SequenceId id, FinishReason reason,
                    std::optional<Error> error) {
  Sequence& sequence = Get(id);
  counters_.stall_ms += sequence.StopWaiting();
  Completion completion = sequence.Complete(reason, model_.config().num_layers);
  completion.error = std::move(error);
  if (sequence.admitted()) {
    // What the step behind its last one writes is nobody's.
    if (IsUnderWay(id)) kv_.Truncate(id, sequence.num_computed());
    const int selector = sequence.request().selector;
    if (selector >= 0) selectors_->Close(selector, id);
    int64_t num_kv_blocks = kv_.NumWhole(id);
    if (slots_) num_kv_blocks += slots_->NumSlotKvBlocks(id);
    if (kv_.has_loan(id)) num_kv_blocks += std::ssize(kv_.loan(id).kv_blocks);
    completion.kv.device_bytes = num_kv_blocks * limits_.page_bytes;
    completion.kv.host_bytes = kv_.NumOnHost(id) * limits_.page_bytes;
    // A step that failed, or drew nothing, may have left anything.
    const bool leaves_pages =
        reason != FinishReason::kError ||
        (completion.error && completion.error->code == ErrorCode::kCancelled);
    DiskPrefixes::Text text;
    if (disk_ && leaves_pages) text = disk_->TextOf(sequence);
    if (slots_) slots_->Close(id);
    prefixes_->Close(sequence, leaves_pages);
    if (disk_) disk_->Forget(id);
    if (disk_ && leaves_pages) disk_->Keep(std::move(text));
    runner_->Forget(id);
  } else if (sequence.preempted()) {
    prefixes_->ForgetParked(sequence);
  }
  completion.kv.fetched_bytes +=
      sequence.num_fetched_pages() * limits_.page_bytes;
  completion.kv.stall_ms += LinkMs(completion.kv.fetched_bytes);
  const bool has_ended =
      reason == FinishReason::kStop || reason == FinishReason::kLength;
  if (has_ended && !sequence.is_prefix()) {
    ++outputs_.num_requests;
    outputs_.num_tokens += sequence.num_generated();
  }
  RequestObserver& observer = sequence.observer();
  const std::optional<SequenceId> prefix = sequence.request().prefix;
  std::erase_if(sequences_,
                [id](const auto& other) { return other->id() == id; });
  observer.OnFinish(completion);
  if (prefix) EndIfUnused(*prefix);
}

void Engine::EndExpired() {
  const bool any = std::ranges::any_of(sequences_, [](const auto& sequence) {
    return sequence->request().deadline.has_value();
  });
  if (!any) return;
  std::vector<SequenceSnapshot> snapshots = Snapshots();
  const auto now = Sequence::Clock::now();
  const std::vector<SequenceId> expired = ExpiredSequences(snapshots, now);
  if (!expired.empty() && options_.on_decision) {
    options_.on_decision(ExpiryDecision{std::move(snapshots), now, expired});
  }
  for (const SequenceId id : expired) {
    Finish(id, FinishReason::kError, Get(id).Lateness());
  }
}

// What the failed step owned and did not seal goes with the sequences.
void Engine::Fail(const Error& error) {
  failure_ = error;
  under_way_.clear();
  while (!sequences_.empty()) {
    Finish(sequences_.front()->id(), FinishReason::kError, error);
  }
  if (disk_) disk_->Abandon();
}

void Engine::Open(SequenceId id) {
  Sequence& sequence = Get(id);
  const int selector = sequence.request().selector;
  if (sequence.request().prefix) {
    OpenFork(sequence);
  } else if (sequence.layerwise()) {
    OpenLayerwise(sequence);
  } else {
    const bool returns = sequence.preempted();
    const int64_t num_fetched = sequence.num_fetched_pages();
    prefixes_->Open(sequence);
    if (!returns) CountFound(sequence);
    counters_.num_restores += sequence.num_fetched_pages() > num_fetched;
    if (selector >= 0) {
      selectors_->Open(selector, id,
                       selectors_->FindShared(selector, kv_, kv_.pages(id)));
    }
    if (disk_ && !returns) BeginRestore(sequence);
  }
}

void Engine::OpenFork(Sequence& sequence) {
  const SequenceId id = sequence.id();
  const SequenceId prefix = *sequence.request().prefix;
  const int selector = sequence.request().selector;
  sequence.Admit();
  kv_.Fork(prefix, id);
  if (selector < 0) return;
  if (Get(prefix).request().selector == selector) {
    selectors_->Fork(selector, prefix, id,
                     {.num_tokens = sequence.num_prompt_tokens(),
                      .num_rows = sequence.num_prefill_rows()});
  } else {
    selectors_->Open(selector, id, FindForkShared(sequence.request()));
  }
}

SharedSummaries Engine::FindForkShared(const Request& fork) const {
  const auto num_full =
      static_cast<size_t>(Get(*fork.prefix).num_prompt_tokens() / kPageTokens);
  return selectors_->FindShared(fork.selector, kv_,
                                kv_.pages(*fork.prefix).first(num_full));
}

// What is cached is copied to the layer blocks layer by layer, from the host.
void Engine::OpenLayerwise(Sequence& sequence) {
  const Request& request = sequence.request();
  const PrefixHit hit = prefixes_->FindFar(
      sequence, static_cast<size_t>(layerwise_->NumFarPages(request)));
  sequence.CountWritten(layerwise_->Open(sequence, hit) * limits_.page_bytes);
  sequence.Admit();
  sequence.BeginCached(hit.kinds, std::ssize(hit.kinds));
  CountFound(sequence);
  counters_.num_restores += !hit.kinds.empty();
  selectors_->Open(request.selector, sequence.id());
  runner_->GrowSummaries(request.selector, sequence.id(),
                         sequence.num_prompt_tokens());
  if (disk_) RestoreLayerwise(sequence);
}

}  // namespace winnow
