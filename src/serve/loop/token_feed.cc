#include "serve/loop/token_feed.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace winnow {
namespace {

size_t NumRanges(const GeneratedToken& token) {
  size_t num = 0;
  if (token.reads == nullptr) return num;
  for (const auto& ranges : token.reads->layers) num += ranges.size();
  return num;
}

}  // namespace

template <typename Put>
void TokenFeed::Tell(const Put& put) {
  const std::scoped_lock lock(mutex_);
  put();
  if (told_ || !wake_) return;
  told_ = true;
  // Under the lock, so that none is called after Leave.
  wake_();
}

void TokenFeed::SetWake(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
  told_ = false;
}

FeedEvents TokenFeed::Take() {
  const std::scoped_lock lock(mutex_);
  told_ = false;
  size_t num_tokens = 0;
  for (size_t num_ranges = 0;
       num_tokens < events_.tokens.size() && num_ranges < kMaxTakenRanges;
       ++num_tokens) {
    num_ranges += NumRanges(events_.tokens[num_tokens]);
  }
  if (num_tokens < events_.tokens.size()) return TakeFirst(num_tokens);
  num_ranges_ = 0;
  return std::exchange(events_, {});
}

// What comes behind the tokens that are left stays with them.
FeedEvents TokenFeed::TakeFirst(size_t num_tokens) {
  FeedEvents first = {.accepted = std::exchange(events_.accepted, false)};
  const auto end =
      events_.tokens.begin() + static_cast<std::ptrdiff_t>(num_tokens);
  first.tokens.assign(std::make_move_iterator(events_.tokens.begin()),
                      std::make_move_iterator(end));
  events_.tokens.erase(events_.tokens.begin(), end);
  for (const GeneratedToken& token : first.tokens) {
    num_ranges_ -= NumRanges(token);
  }
  return first;
}

void TokenFeed::Leave() {
  const std::scoped_lock lock(mutex_);
  left_ = true;
  wake_ = nullptr;
  events_ = {};
}

void TokenFeed::EndAtStop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
}

void TokenFeed::Accept(std::function<void()> before_end) {
  before_end_ = std::move(before_end);
  Tell([this] { events_.accepted = true; });
}

void TokenFeed::Refuse(const Error& error) {
  finished_ = true;
  Tell([&] { events_.refused = error; });
}

void TokenFeed::OnPrefill(int done, int) {
  started_ = true;
  int& num_counted = asked_.answers->num_prompt_tokens;
  if (done <= num_counted) return;
  metrics_.CountPromptTokens(done - std::exchange(num_counted, done));
}

bool TokenFeed::OnToken(const GeneratedToken& token) {
  const auto now = Metrics::Clock::now();
  metrics_.CountToken(num_tokens_ == 0,
                      num_tokens_ == 0 ? now - arrived_ : now - last_token_at_);
  last_token_at_ = now;
  ++num_tokens_;
  started_ = true;
  bool fits = true;
  Tell([&] {
    const size_t most =
        token.reads ? kMaxPendingWatchedTokens : kMaxPendingTokens;
    fits = events_.tokens.size() < most && num_ranges_ < kMaxPendingRanges;
    if (left_) {
      fits = false;
      ended_by_leaving_ = true;
    } else if (fits) {
      num_ranges_ += NumRanges(token);
      events_.tokens.push_back(token);
    } else {
      events_.overflowed = true;
    }
  });
  return fits;
}

void TokenFeed::CountEnd(const Completion& completion, FinishReason reason) {
  metrics_.CountRequest({.completion = completion,
                         .reason = reason,
                         .life = Metrics::Clock::now() - arrived_,
                         .max_tokens = asked_.max_tokens});
  PromptAnswers& answers = *asked_.answers;
  answers.most_generated_tokens =
      std::max(answers.most_generated_tokens, completion.num_generated_tokens);
  if (--answers.num_left == 0) {
    metrics_.CountPrompt(answers.n, answers.most_generated_tokens);
  }
}

// The loop may have told it that no step runs any more; then the engine ends.
void TokenFeed::OnFinish(const Completion& completion) {
  if (finished_) return;
  finished_ = true;
  if (before_end_) before_end_();
  Tell([&] {
    events_.completion = completion;
    const bool cancelled = completion.reason == FinishReason::kCancelled;
    const FinishReason reason =
        ended_by_leaving_ ? FinishReason::kCancelled : completion.reason;
    CountEnd(completion, stopped_ && cancelled ? FinishReason::kStop : reason);
  });
}

}  // namespace winnow
