// TokenFeed: one request's tokens on their way from the engine's thread to the
// connection that shows them.
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

// What has happened since it was last asked for, in this order.
struct FeedEvents {
  bool accepted = false;  // the engine took the request in
  // Or did not: nothing else will come.
  std::optional<Error> refused = {};
  std::vector<GeneratedToken> tokens = {};
  // Its reader has let more lie than may be: it ends.
  bool overflowed = false;
  std::optional<Completion> completion = {};  // the last

  bool empty() const {
    return !accepted && !refused && tokens.empty() && !overflowed &&
           !completion;
  }
};

// The answers to one prompt, of which each is a request of its own. Of the
// engine's thread, but for making it.
struct PromptAnswers {
  int n = 1;
  int num_left = 1;           // to end
  int num_prompt_tokens = 0;  // that have been read, by whichever read most
  int most_generated_tokens = 0;
};

// What a request asked for, as it is counted when it ends.
struct AskedTokens {
  int max_tokens = 0;
  std::shared_ptr<PromptAnswers> answers = std::make_shared<PromptAnswers>();
};

// Owned by the loop until the request ends and by its reader until that has
// gone. The engine's thread puts in and never waits; text is made elsewhere. At
// all times it holds at most kMaxPendingTokens tokens, and where it is watched
// kMaxPendingWatchedTokens and about kMaxPendingRanges ranges that they read.
class TokenFeed : public RequestObserver {
 public:
  static constexpr size_t kMaxPendingTokens = 16 << 10;
  // Of a watched request, so that nobody's steps go on for whom nobody watches.
  static constexpr size_t kMaxPendingWatchedTokens = 1 << 10;
  static constexpr size_t kMaxPendingRanges = size_t{512} << 10;  // 6 MiB
  // About what one Take hands over: JSON's tree takes ten times as much.
  static constexpr size_t kMaxTakenRanges = size_t{32} << 10;

  // REQUIRES: metrics outlives this.
  explicit TokenFeed(Metrics& metrics, AskedTokens asked = {})
      : metrics_(metrics), asked_(std::move(asked)) {}

  // The reader's side. `wake`, which may be none, is called when there is
  // something, once until Take; never after Leave.
  void SetWake(std::function<void()> wake);
  // Of a watched request perhaps only the first tokens, and the rest next time.
  FeedEvents Take();
  // The next token ends the request, if nothing does before.
  void Leave();
  // What made the reader end it was the text's end, not its own going.
  void EndAtStop();

  // The engine's thread. `before_end`, where it is set: before its reader hears
  // that it has ended.
  void Accept(std::function<void()> before_end = nullptr);
  void Refuse(const Error& error);
  void OnPrefill(int done, int total) override;
  bool OnToken(const GeneratedToken& token) override;
  void OnFinish(const Completion& completion) override;
  bool started() const { return started_; }    // it has run
  bool finished() const { return finished_; }  // it is told no more

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
  // Of the engine's thread.
  std::function<void()> before_end_;
  bool started_ = false;
  bool finished_ = false;
  int num_tokens_ = 0;
  Metrics::Clock::time_point last_token_at_;

  std::mutex mutex_;  // for what follows
  FeedEvents events_;
  size_t num_ranges_ = 0;  // that they have
  std::function<void()> wake_;
  bool told_ = false;
  bool left_ = false;
  bool ended_by_leaving_ = false;
  bool stopped_ = false;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_LOOP_TOKEN_FEED_H_
