// DeferredAnswer: an answer that another thread begins.
#ifndef WINNOW_SERVE_ANSWER_DEFERRED_ANSWER_H_
#define WINNOW_SERVE_ANSWER_DEFERRED_ANSWER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/request/request.h"
#include "serve/answer/request_log.h"
#include "serve/http/http_message.h"
#include "serve/request/api_error.h"

namespace winnow {

// What is to be done for an answer: shared by the connection that waits for it
// and the thread that does it, and safe for both. Once nobody waits it does not
// begin any more, what it holds is freed, and what comes of it ends unsent.
class DeferredWork {
 public:
  using Do = std::function<std::unique_ptr<HttpAnswer>(DeferredWork&)>;

  // `lacking`: what comes of it where memory does not suffice for it; made
  // beforehand, when there is some.
  DeferredWork(Do work, std::unique_ptr<HttpAnswer> lacking)
      : do_(std::move(work)), lacking_(std::move(lacking)) {}

  // The thread that does it. REQUIRES: called once.
  void Run();
  // From within it: when to wait for it no longer, and whether nobody does, so
  // that the rest need not be done.
  void SetDeadline(const Deadline& deadline);
  const std::atomic<bool>& is_left() const { return is_left_; }

  // The connection. `withdraw`: takes it from where it waits to be begun.
  void SetWithdraw(std::function<void()> withdraw);
  void SetWake(std::function<void()> wake);
  void Leave();
  // What came of it, once; null: nothing yet.
  std::unique_ptr<HttpAnswer> Take();
  std::optional<Deadline> deadline() const;

 private:
  std::unique_ptr<HttpAnswer> Done(const Do& work);

  std::atomic<bool> is_left_ = false;  // set under the lock
  mutable std::mutex mutex_;           // for what follows
  Do do_;                              // null: it has begun, or never will
  std::unique_ptr<HttpAnswer> lacking_;
  std::function<void()> withdraw_;
  std::function<void()> wake_;
  std::optional<Deadline> deadline_;
  std::unique_ptr<HttpAnswer> answer_;
};

// Owns its side of the work, then the answer that came of it. Leaves one line
// in the log, whatever comes first: that answer, the deadline or the client's
// end.
class DeferredAnswer : public HttpAnswer {
 public:
  // The answer to who is late.
  using Late = std::function<std::unique_ptr<HttpAnswer>(const Deadline&)>;
  struct Records {
    std::shared_ptr<RequestRecord> own;   // until the work is done
    std::shared_ptr<RequestRecord> work;  // of the thread that does it
    RequestLog* log = nullptr;            // null: none; outlives the answer
  };

  DeferredAnswer(std::shared_ptr<DeferredWork> work, Late late, Records records)
      : work_(std::move(work)),
        late_(std::move(late)),
        records_(std::move(records)) {}
  ~DeferredAnswer() override;

  void SetWake(std::function<void()> wake) override;
  HttpPart Take() override;
  std::optional<std::chrono::steady_clock::time_point> due() const override;

 private:
  // From now on it is that one.
  void Become(std::unique_ptr<HttpAnswer> answer,
              const std::shared_ptr<RequestRecord>& record);

  const std::shared_ptr<DeferredWork> work_;
  const Late late_;
  const Records records_;
  std::function<void()> wake_;
  std::unique_ptr<HttpAnswer> answer_;  // null: not yet
};

}  // namespace winnow

#endif  // WINNOW_SERVE_ANSWER_DEFERRED_ANSWER_H_
