// DeferredAnswer: an answer that a worker thread begins.
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

// Work for an answer, shared by the waiting connection and the working thread;
// both may use it at once. Once the connection leaves, the work does not begin,
// its arguments are freed, and a finished answer is dropped.
class DeferredWork {
 public:
  using Do = std::function<std::unique_ptr<HttpAnswer>(DeferredWork&)>;

  // `lacking`: the answer if memory does not suffice. The caller makes it in
  // advance, while there is memory.
  DeferredWork(Do work, std::unique_ptr<HttpAnswer> lacking)
      : do_(std::move(work)), lacking_(std::move(lacking)) {}

  // Called by the working thread. REQUIRES: called once.
  void Run();
  // Called from within the work: sets the time to wait, and tells whether the
  // connection has left, so that the rest may be skipped.
  void SetDeadline(const Deadline& deadline);
  const std::atomic<bool>& is_left() const { return is_left_; }

  // Called by the connection. `withdraw` removes the work from its queue.
  void SetWithdraw(std::function<void()> withdraw);
  void SetWake(std::function<void()> wake);
  void Leave();
  // Returns the answer once; null: not ready.
  std::unique_ptr<HttpAnswer> Take();
  std::optional<Deadline> deadline() const;

 private:
  std::unique_ptr<HttpAnswer> Done(const Do& work);

  std::atomic<bool> is_left_ = false;  // set under the lock
  mutable std::mutex mutex_;           // guards the members below
  Do do_;                              // null: begun, or dropped
  std::unique_ptr<HttpAnswer> lacking_;
  std::function<void()> withdraw_;
  std::function<void()> wake_;
  std::optional<Deadline> deadline_;
  std::unique_ptr<HttpAnswer> answer_;
};

// Owns its side of the work, then the resulting answer. Writes one line to the
// log, for whichever comes first: the answer, the deadline or the client's
// disconnect.
class DeferredAnswer : public HttpAnswer {
 public:
  // Makes the answer to a late request.
  using Late = std::function<std::unique_ptr<HttpAnswer>(const Deadline&)>;
  struct Records {
    std::shared_ptr<RequestRecord> own;   // used until the work is done
    std::shared_ptr<RequestRecord> work;  // of the working thread
    RequestLog* log = nullptr;            // null: no log; outlives the answer
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
  // Replaces this answer's content by `answer`.
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
