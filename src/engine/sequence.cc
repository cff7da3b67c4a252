#include "engine/sequence.h"

#include <algorithm>

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
  CHECK(num_prompt_rows() >= 0, "question={} prompt={}",
        request_.num_question_tokens, num_prompt_tokens());
  if (HasPenalties(request_.sampling)) {
    for (const int32_t token : tokens_) seen_.emplace(token, 0);
  }
}

SequenceSnapshot Sequence::Snapshot() const {
  // The last token that is generated is never fed back.
  const int longest = num_prompt_tokens() + request_.max_tokens - 1;
  return {.id = id_,
          .num_tokens = static_cast<int>(tokens_.size()),
          .num_computed = num_computed_,
          .chunk_tokens = chunk_tokens_,
          .next_layer = next_layer_,
          .admitted = admitted_,
          .life_pages = PagesFor(longest)};
}

void Sequence::Admit() {
  CHECK(!admitted_);
  admitted_ = true;
  admitted_at_ = Clock::now();
}

void Sequence::Land(const StepItem& item, int num_layers) {
  CHECK(item.first_token == num_computed_ && item.first_layer == next_layer_,
        "item=[{},+{})x[{},{}) computed={} layer={}", item.first_token,
        item.num_tokens, item.first_layer, item.end_layer, num_computed_,
        next_layer_);
  const bool done = item.end_layer == num_layers;
  chunk_tokens_ = done ? 0 : item.num_tokens;
  next_layer_ = done ? 0 : item.end_layer;
  if (!done) return;
  num_computed_ += item.num_tokens;
  if (num_generated() == 0) {
    observer_->OnPrefill(num_computed_, num_prompt_tokens());
  }
}

bool Sequence::Take(const GeneratedToken& token, FinishReason* reason) {
  last_token_at_ = Clock::now();
  if (num_generated() == 0) first_token_at_ = last_token_at_;
  tokens_.push_back(token.token_id);
  if (HasPenalties(request_.sampling)) ++seen_[token.token_id];
  const bool wanted = observer_->OnToken(token);
  const auto& ends = request_.end_token_ids;
  const bool ended =
      std::find(ends.begin(), ends.end(), token.token_id) != ends.end();
  if (ended || !wanted) {
    *reason = FinishReason::kStop;
    return true;
  }
  *reason = FinishReason::kLength;
  return num_generated() == request_.max_tokens;
}

Completion Sequence::Complete(FinishReason reason) const {
  Completion completion;
  completion.reason = reason;
  completion.num_prompt_tokens = num_prompt_tokens();
  completion.num_generated_tokens = num_generated();
  const Clock::time_point now = Clock::now();
  RequestTiming& timing = completion.timing;
  timing.queue_ms = Milliseconds((admitted_ ? admitted_at_ : now) - arrived_);
  if (num_generated() > 0) {
    timing.prefill_ms = Milliseconds(first_token_at_ - admitted_at_);
    timing.first_token_ms = Milliseconds(first_token_at_ - arrived_);
    timing.decode_ms = Milliseconds(last_token_at_ - first_token_at_);
  } else if (admitted_) {
    timing.prefill_ms = Milliseconds(now - admitted_at_);
  }
  return completion;
}

}  // namespace winnow
