// TokenFeed: carries one request's tokens from the engine's thread to the
// connection.
#ifndef WINNOW_SERVE_LOOP_TOKEN_FEED_H_
#define WINNOW_SERVE_LOOP_TOKEN_FEED_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/request/request.h"
#include "serve/metrics/metrics.h"

namespace winnow {

// The events since the last Take, in this order.
struct FeedEvents {
  bool accepted = false;  // the engine accepted the request
  // The engine refused the request; no other event follows.
  std::optional<Error> refused = {};
  std::vector<GeneratedToken> tokens = {};
  // The reader has fallen too far behind; the request ends.
  bool overflowed = false;
  std::optional<Completion> completion = {};  // the last event

  bool empty() const {
    return !accepted && !refused && tokens.empty() && !overflowed &&
           !completion;
  }
};

// The answers to one prompt; each is a request of its own. Used by the engine's
// thread after construction.
struct PromptAnswers {
  int n = 1;
  int num_left = 1;           // not ended
  int num_prompt_tokens = 0;  // greatest number read by one of them
  int most_generated_tokens = 0;
};

// Values of a request that are counted when it ends.
struct AskedTokens {
  int max_tokens = 0;
  std::shared_ptr<PromptAnswers> answers = std::make_shared<PromptAnswers>();
};

// The loop owns it until the request ends, the reader until it leaves. The
// engine's thread adds events and never waits; text is made elsewhere. Holds at
// most kMaxPendingTokens tokens. A watched feed holds at most
// kMaxPendingWatchedTokens tokens and about kMaxPendingRanges ranges.
class TokenFeed : public RequestObserver {
 public:
  static constexpr size_t kMaxPendingTokens = 16 << 10;
  // For a watched request, so that it does not run on without a reader.
  static constexpr size_t kMaxPendingWatchedTokens = 1 << 10;
  static constexpr size_t kMaxPendingRanges = size_t{512} << 10;  // 6 MiB
  // Approximate limit of one Take, because the JSON tree takes ten times the
  // memory.
  static constexpr size_t kMaxTakenRanges = size_t{32} << 10;

  // REQUIRES: metrics outlives this.
  explicit TokenFeed(Metrics& metrics, AskedTokens asked = {})
      : metrics_(metrics), asked_(std::move(asked)) {}

  // The reader's side. `wake`, which may be empty, is called once when there
  // are events, until the next Take, and never after Leave.
  void SetWake(std::function<void()> wake);
  // For a watched request perhaps only the first tokens; the rest follows next
  // time.
  FeedEvents Take();
  // Ends the request at its next token at the latest.
  void Leave();
  // Declares that the reader leaves because the text has ended.
  void EndAtStop();

  // The engine's side. `before_end`, if set, is called before the reader learns
  // of the end.
  void Accept(std::function<void()> before_end = nullptr);
  void Refuse(const Error& error);
  void OnPrefill(int done, int total) override;
  bool OnToken(const GeneratedToken& token) override;
  void OnFinish(const Completion& completion) override;
  bool started() const { return started_; }    // it has run
  bool finished() const { return finished_; }  // no further events

 private:
  // Calls `put` on the events under the lock, then wakes the reader.
  template <typename Put>
  void Tell(const Put& put);
  void CountEnd(const Completion& completion, FinishReason reason);
  // REQUIRES: mutex_ is held.
  FeedEvents TakeFirst(size_t num_tokens);

  Metrics& metrics_;
  const AskedTokens asked_;
  const Metrics::Clock::time_point arrived_ = Metrics::Clock::now();
  // Used by the engine's thread.
  std::function<void()> before_end_;
  bool started_ = false;
  bool finished_ = false;
  int num_tokens_ = 0;
  Metrics::Clock::time_point last_token_at_;

  std::mutex mutex_;  // guards the members below
  FeedEvents events_;
  size_t num_ranges_ = 0;  // of the pending tokens
  std::function<void()> wake_;
  bool told_ = false;
  bool left_ = false;
  bool ended_by_leaving_ = false;
  bool stopped_ = false;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_LOOP_TOKEN_FEED_H_
