#include "serve/answer/deferred_answer.h"

#include <new>

#include "base/memory_reserve.h"
#include "serve/answer/logged_answer.h"

namespace winnow {

std::unique_ptr<HttpAnswer> DeferredWork::Done(const Do& work) {
  const WorkMayLackMemory its_own_alone;
  try {
    return work(*this);
  } catch (const std::bad_alloc&) {
    const std::scoped_lock lock(mutex_);
    return std::move(lacking_);
  }
}

void DeferredWork::Run() {
  Do work;
  {
    const std::scoped_lock lock(mutex_);
    work = std::exchange(do_, nullptr);
  }
  if (!work) return;
  std::unique_ptr<HttpAnswer> answer = Done(work);
  // Who hears of it may ask again at once, and finds the room of its body free.
  work = nullptr;
  const std::scoped_lock lock(mutex_);
  if (is_left_) return;
  answer_ = std::move(answer);
  if (wake_) wake_();
}

void DeferredWork::SetDeadline(const Deadline& deadline) {
  const std::scoped_lock lock(mutex_);
  deadline_ = deadline;
  if (wake_) wake_();
}

void DeferredWork::SetWithdraw(std::function<void()> withdraw) {
  const std::scoped_lock lock(mutex_);
  withdraw_ = std::move(withdraw);
}

void DeferredWork::SetWake(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
}

void DeferredWork::Leave() {
  Do unbegun;
  // What it holds may end before the work does.
  std::function<void()> wake;
  std::unique_ptr<HttpAnswer> unsent, unneeded;
  std::function<void()> withdraw;
  {
    const std::scoped_lock lock(mutex_);
    is_left_ = true;
    unbegun = std::exchange(do_, nullptr);
    withdraw = std::exchange(withdraw_, nullptr);
    wake = std::exchange(wake_, nullptr);
    unsent = std::move(answer_);
    unneeded = std::move(lacking_);
  }
  if (withdraw) withdraw();
}

std::unique_ptr<HttpAnswer> DeferredWork::Take() {
  const std::scoped_lock lock(mutex_);
  return std::move(answer_);
}

std::optional<Deadline> DeferredWork::deadline() const {
  const std::scoped_lock lock(mutex_);
  return deadline_;
}

DeferredAnswer::~DeferredAnswer() {
  work_->Leave();
  if (answer_ == nullptr && records_.log != nullptr) {
    records_.log->Add(*records_.own);
  }
}

void DeferredAnswer::SetWake(std::function<void()> wake) {
  wake_ = wake;
  work_->SetWake(std::move(wake));
}

void DeferredAnswer::Become(std::unique_ptr<HttpAnswer> answer,
                            const std::shared_ptr<RequestRecord>& record) {
  answer_ =
      std::make_unique<LoggedAnswer>(std::move(answer), record, records_.log);
  answer_->SetWake(wake_);
}

HttpPart DeferredAnswer::Take() {
  if (answer_ != nullptr) return answer_->Take();
  if (std::unique_ptr<HttpAnswer> answer = work_->Take()) {
    Become(std::move(answer), records_.work);
    return answer_->Take();
  }
  const auto latest = due();
  if (!latest || *latest > std::chrono::steady_clock::now()) return {};
  work_->Leave();
  Become(late_(*work_->deadline()), records_.own);
  return answer_->Take();
}

std::optional<std::chrono::steady_clock::time_point> DeferredAnswer::due()
    const {
  if (answer_ != nullptr) return answer_->due();
  const std::optional<Deadline> deadline = work_->deadline();
  if (!deadline) return std::nullopt;
  return deadline->at + kMaxLateness;
}

}  // namespace winnow
