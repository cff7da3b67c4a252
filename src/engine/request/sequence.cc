#include "engine/request/sequence.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace winnow {
namespace {

double Milliseconds(Sequence::Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

Sequence::Sequence(SequenceId id, Request request, RequestRope rope,
                   RequestObserver* observer)
    : id_(id),
      request_(std::move(request)),
      rope_(std::move(rope)),
      observer_(observer),
      tokens_(request_.prompt) {
  CHECK(!tokens_.empty() && request_.max_tokens > 0);
  CHECK(num_prefill_rows() >= 0, "question={} prompt={}",
        request_.num_question_tokens, num_prompt_tokens());
  if (HasPenalties(request_.sampling)) {
    for (const int32_t token : tokens_) seen_.emplace(token, 0);
  }
}

std::unique_ptr<Sequence> Sequence::MakePrefix(SequenceId id, Prefix prefix,
                                               RequestRope rope,
                                               RequestObserver* observer) {
  Request request;
  request.max_tokens =
      prefix.max_length - static_cast<int>(prefix.tokens.size());
  request.prompt = std::move(prefix.tokens);
  request.selector = prefix.selector;
  auto sequence = std::make_unique<Sequence>(id, std::move(request),
                                             std::move(rope), observer);
  sequence->is_prefix_ = true;
  return sequence;
}

std::unique_ptr<Sequence> Sequence::MakeFork(SequenceId id, Request request,
                                             const Sequence& prefix,
                                             RequestObserver* observer) {
  CHECK(request.prefix == prefix.id() && prefix.is_prefix());
  auto sequence = std::make_unique<Sequence>(id, std::move(request),
                                             prefix.rope(), observer);
  sequence->num_prefix_tokens_ = prefix.num_prompt_tokens();
  sequence->num_computed_ = prefix.num_prompt_tokens();
  CHECK(sequence->num_prefill_rows() >= sequence->num_computed_,
        "prefill_rows={} prefix={}", sequence->num_prefill_rows(),
        sequence->num_computed_);
  return sequence;
}

SequenceSnapshot Sequence::Snapshot() const {
  SequenceSnapshot snapshot = {.id = id_,
                               .num_tokens = static_cast<int>(tokens_.size()),
                               .num_computed = num_computed_,
                               .chunk_tokens = chunk_tokens_,
                               .next_layer = next_layer_,
                               .layerwise = layerwise_,
                               .layer_tokens = layer_tokens_,
                               .admitted = admitted_,
                               .priority = request_.priority,
                               .num_overtaken = num_overtaken_,
                               .is_restoring = is_restoring_,
                               .prefix = request_.prefix};
  if (request_.deadline) snapshot.deadline = request_.deadline->at;
  if (request_.prompt_logprobs) {
    snapshot.first_scored = num_scored();
    snapshot.end_scored = num_prompt_tokens() - 1;
  }
  // The last token that is generated is never fed back.
  const int64_t life_pages =
      PagesFor(int64_t{num_prompt_tokens()} + request_.max_tokens - 1);
  snapshot.table_pages = life_pages;
  if (is_prefix_) {
    snapshot.life_pages = PagesFor(num_prompt_tokens());
    snapshot.fork_pages = life_pages - num_prompt_tokens() / kPageTokens;
  } else {
    // A fork writes into a copy of its prefix's open page.
    snapshot.life_pages = life_pages - num_prefix_tokens_ / kPageTokens;
  }
  return snapshot;
}

SequenceSnapshot Sequence::SnapshotAfter(const StepItem& item) const {
  SequenceSnapshot snapshot = Snapshot();
  snapshot.num_computed += item.num_tokens;
  snapshot.num_tokens += item.samples ? 1 : 0;
  snapshot.first_scored += item.num_scored;
  return snapshot;
}

void Sequence::Admit() {
  CHECK(!admitted_);
  admitted_ = true;
  if (num_preemptions_ == 0) admitted_at_ = Clock::now();
}

void Sequence::Preempt() {
  CHECK(admitted_ && !is_prefix_ && !layerwise_,
        "sequence={} admitted={} is_prefix={} layerwise={}", id_.value(),
        admitted_, is_prefix_, layerwise_);
  admitted_ = false;
  ++num_preemptions_;
  num_computed_ = num_prefix_tokens_;
  chunk_tokens_ = next_layer_ = 0;
  num_chunk_reads_ = 0;
  sum_of_chunk_shares_ = 0;
  sum_of_chunk_tokens_ = 0;
  cached_kinds_.clear();
  StopWaiting();
}

void Sequence::Resume(std::vector<PageKind> kinds, int num_tokens,
                      int64_t num_fetched) {
  CHECK(admitted_ && num_computed_ == 0 && num_tokens < std::ssize(tokens_) &&
            std::ssize(kinds) * kPageTokens <= num_tokens,
        "admitted={} computed={} resumed={} tokens={} kinds={}", admitted_,
        num_computed_, num_tokens, tokens_.size(), kinds.size());
  num_computed_ = num_tokens;
  cached_kinds_ = std::move(kinds);
  num_fetched_pages_ += num_fetched;
}

void Sequence::BeginCached(std::vector<PageKind> kinds, int64_t num_fetched) {
  const int num_tokens = static_cast<int>(kinds.size()) * kPageTokens;
  CHECK(num_computed_ == 0, "computed={}", num_computed_);
  cached_kinds_ = std::move(kinds);
  num_fetched_pages_ += num_fetched;
  SkipCached(num_tokens);
}

// What comes behind them is computed first.
void Sequence::SkipCached(int num_tokens) {
  (layerwise_ ? layer_tokens_ : num_computed_) = num_tokens;
  num_cached_tokens_ = num_tokens;
  CHECK(num_tokens < num_prompt_tokens() && num_tokens <= num_prefill_rows(),
        "cached={} prompt={} question={}", num_tokens, num_prompt_tokens(),
        request_.num_question_tokens);
}

void Sequence::BeginRestore() {
  CHECK(admitted_ && !is_restoring_ && next_layer_ == 0,
        "sequence={} restoring={} layer={}", id_.value(), is_restoring_,
        next_layer_);
  is_restoring_ = true;
  restore_begun_ = Clock::now();
}

double Sequence::StopWaiting() {
  if (!is_restoring_) return 0;
  is_restoring_ = false;
  const double waited_ms = Milliseconds(Clock::now() - restore_begun_);
  disk_wait_ms_ += waited_ms;
  return waited_ms;
}

double Sequence::EndRestore(std::span<const PageKind> kinds) {
  CHECK(is_restoring_, "sequence={}", id_.value());
  const double waited_ms = StopWaiting();
  num_fetched_pages_ += std::ssize(kinds);
  cached_kinds_.insert(cached_kinds_.end(), kinds.begin(), kinds.end());
  SkipCached(static_cast<int>(cached_kinds_.size()) * kPageTokens);
  return waited_ms;
}

void Sequence::Release() {
  CHECK(is_prefix_ && !released_, "sequence={} is_prefix={} released={}",
        id_.value(), is_prefix_, released_);
  released_ = true;
}

void Sequence::CountReads(double sum_of_shares, int num_tokens,
                          int num_layers) {
  num_chunk_reads_ += num_layers;
  sum_of_chunk_shares_ += sum_of_shares;
  sum_of_chunk_tokens_ += sum_of_shares * num_tokens;
}

void Sequence::Land(const StepItem& item, int num_layers) {
  const int first_token = item.layerwise ? layer_tokens_ : num_computed_;
  CHECK(item.first_token == first_token && item.first_layer == next_layer_,
        "item=[{},+{})x[{},{}) computed={} layer={}", item.first_token,
        item.num_tokens, item.first_layer, item.end_layer, first_token,
        next_layer_);
  const bool is_last_layer = item.end_layer == num_layers;
  if (item.layerwise) {
    layer_tokens_ += item.num_tokens;
    TellLayerwise(item, num_layers);
    if (layer_tokens_ < std::ssize(tokens_)) return;
    next_layer_ = is_last_layer ? 0 : item.end_layer;
    layer_tokens_ = is_last_layer ? 0 : num_cached_tokens_;
    if (is_last_layer) CountLanded(static_cast<int>(tokens_.size()));
    return;
  }
  chunk_tokens_ = is_last_layer ? 0 : item.num_tokens;
  next_layer_ = is_last_layer ? 0 : item.end_layer;
  if (is_last_layer) CountLanded(item.num_tokens);
}

void Sequence::TellLayerwise(const StepItem& item, int num_layers) {
  const int64_t num_rows =
      item.first_layer * std::ssize(tokens_) +
      int64_t{item.end_layer - item.first_layer} * layer_tokens_;
  const auto num_read = static_cast<int>(num_rows / num_layers);
  // The last are told when they have landed.
  if (num_read <= num_prefilled_ || num_read == num_prompt_tokens()) return;
  num_prefilled_ = num_read;
  observer_->OnPrefill(num_read, num_prompt_tokens());
}

// They have come through all layers.
void Sequence::CountLanded(int num_tokens) {
  num_computed_ += num_tokens;
  num_counted_ = std::max(num_counted_, num_computed_);
  num_reads_ += std::exchange(num_chunk_reads_, 0);
  sum_of_read_shares_ += std::exchange(sum_of_chunk_shares_, 0);
  sum_of_read_tokens_ += std::exchange(sum_of_chunk_tokens_, 0);
  // What is computed again is no news.
  if (num_generated() == 0 && num_computed_ > num_prefilled_) {
    num_prefilled_ = num_computed_;
    observer_->OnPrefill(num_computed_, num_prompt_tokens());
  }
}

int Sequence::num_scored() const {
  const bool left = request_.prompt_logprobs && num_generated() == 0;
  return left ? static_cast<int>(scored_.size()) : num_prompt_tokens() - 1;
}

void Sequence::TakeScored(GeneratedToken token) {
  CHECK(request_.prompt_logprobs && num_scored() + 1 < num_prompt_tokens() &&
            token.token_id == tokens_[scored_.size() + 1],
        "sequence={} scored={} prompt={} token={}", id_.value(), scored_.size(),
        num_prompt_tokens(), token.token_id);
  scored_.push_back(std::move(token));
}

bool Sequence::Take(GeneratedToken token, FinishReason* reason) {
  if (request_.prompt_logprobs && num_generated() == 0) {
    CHECK(num_scored() + 1 == num_prompt_tokens(), "scored={} prompt={}",
          num_scored(), num_prompt_tokens());
    token.prompt = std::make_shared<const std::vector<GeneratedToken>>(
        std::exchange(scored_, {}));
  }
  last_token_at_ = Clock::now();
  if (num_generated() == 0) {
    first_token_at_ = last_token_at_;
    token.start = {.num_cached_tokens = num_cached_tokens_,
                   .queue_ms = Milliseconds(admitted_at_ - arrived_),
                   .first_token_ms = Milliseconds(first_token_at_ - arrived_)};
  }
  const auto draw = static_cast<size_t>(num_generated());
  const auto& forced = request_.forced_tokens;
  const int32_t next = draw < forced.size() ? forced[draw] : token.token_id;
  tokens_.push_back(next);
  if (HasPenalties(request_.sampling)) ++seen_[next];
  const bool wanted = observer_->OnToken(token);
  const auto& ends = request_.end_token_ids;
  const bool ended = std::find(ends.begin(), ends.end(), next) != ends.end();
  bool complete = false;
  if (request_.constraint && !ended) {
    request_.constraint->Accept(next);
    complete = request_.constraint->complete();
  }
  if (ended || complete || !wanted) {
    *reason = FinishReason::kStop;
    return true;
  }
  *reason = FinishReason::kLength;
  return num_generated() == request_.max_tokens;
}

Error Sequence::Lateness() const {
  CHECK(request_.deadline.has_value(), "sequence={}", id_.value());
  return MakeError(
      ErrorCode::kCancelled,
      "{} must suffice for the whole answer, is over: of its prompt {} of {} "
      "tokens were read, {} were generated",
      request_.deadline->limit,
      std::min(std::max(num_computed_, num_prefilled_), num_prompt_tokens()),
      num_prompt_tokens(), num_generated());
}

Completion Sequence::Complete(FinishReason reason, int num_layers) const {
  Completion completion;
  completion.kv.num_decode_rows = num_reads_ / num_layers;
  if (num_reads_ > 0) {
    completion.kv.tokens_read_share =
        sum_of_read_shares_ / static_cast<double>(num_reads_);
    completion.kv.num_tokens_read =
        std::llround(sum_of_read_tokens_ / num_layers);
  }
  completion.kv.picks = brought_.picks;
  completion.kv.hits = brought_.hits;
  completion.kv.misses = brought_.misses;
  completion.kv.hints = brought_.hints;
  completion.kv.hints_used = brought_.hints_used;
  completion.kv.fetched_bytes = brought_.fetched_bytes + brought_.near_bytes;
  completion.kv.written_bytes = written_bytes_;
  completion.kv.stall_ms = disk_wait_ms_;
  completion.reason = reason;
  completion.num_prompt_tokens = num_prompt_tokens();
  completion.num_cached_tokens = num_cached_tokens_;
  completion.num_preemptions = num_preemptions_;
  completion.num_generated_tokens = num_generated();
  const Clock::time_point now = Clock::now();
  RequestTiming& timing = completion.timing;
  const bool has_run = admitted_ || preempted();
  timing.queue_ms = Milliseconds((has_run ? admitted_at_ : now) - arrived_);
  if (num_generated() > 0) {
    timing.prefill_ms = Milliseconds(first_token_at_ - admitted_at_);
    timing.first_token_ms = Milliseconds(first_token_at_ - arrived_);
    timing.decode_ms = Milliseconds(last_token_at_ - first_token_at_);
  } else if (has_run) {
    timing.prefill_ms = Milliseconds(now - admitted_at_);
  }
  return completion;
}

}  // namespace winnow
