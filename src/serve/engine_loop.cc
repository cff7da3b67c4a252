#include "serve/engine_loop.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace winnow {
namespace {

// Where memory ends the library throws, and a backend's workspace as it does.
Result<bool> StepOf(Engine& engine) {
  try {
    return engine.Step();
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "memory does not suffice for a step");
  }
}

}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<Engine> engine, int max_open,
                       Metrics& metrics,
                       std::function<void(const Error&)> on_failure)
    : engine_(std::move(engine)),
      max_open_(max_open),
      max_watched_(engine_->max_watched_requests()),
      metrics_(metrics),
      on_failure_(std::move(on_failure)),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "winnow-engine");
}

EngineLoop::~EngineLoop() {
  {
    const std::scoped_lock lock(mutex_);
    inbox_.ending = true;
  }
  came_.notify_one();
  thread_.join();
}

Status EngineLoop::CheckRoom(const std::vector<Submission>& submissions) const {
  if (num_open_ + std::ssize(submissions) > max_open_) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "requests that run or wait must be at most {} "
                     "(--max-num-seqs and --max-queued-requests), are {} and "
                     "{} more",
                     max_open_, num_open_, submissions.size());
  }
  const auto num_more = std::ranges::count_if(
      submissions, [](const auto& each) { return each.request.is_watched; });
  if (num_more > max_watched_) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "answers that are watched must be at most {} "
                     "(--max-watched-requests), are {}",
                     max_watched_, num_more);
  }
  if (num_more > 0 && num_watched_ + num_more > max_watched_) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "requests that are watched must be at most {} "
                     "(--max-watched-requests), are {} and {} more",
                     max_watched_, num_watched_, num_more);
  }
  return Ok{};
}

Result<std::vector<Ticket>> EngineLoop::Submit(
    std::vector<Submission> submissions) {
  std::vector<Ticket> tickets;
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return *failure_;
    RETURN_IF_ERROR(CheckRoom(submissions));
    for (Submission& submission : submissions) {
      tickets.push_back(Ticket{++num_tickets_});
      ++num_open_;
      num_watched_ += submission.request.is_watched ? 1 : 0;
      inbox_.arrivals.push_back({tickets.back(), std::move(submission)});
    }
  }
  came_.notify_one();
  return tickets;
}

void EngineLoop::Cancel(Ticket ticket) {
  {
    const std::scoped_lock lock(mutex_);
    inbox_.cancelled.push_back(ticket);
  }
  came_.notify_one();
}

bool EngineLoop::healthy() const {
  const std::scoped_lock lock(mutex_);
  return !failure_;
}

EngineLoop::Inbox EngineLoop::AwaitWork() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] {
    return !open_.empty() || !inbox_.arrivals.empty() ||
           !inbox_.cancelled.empty() || inbox_.ending;
  });
  const bool ending = inbox_.ending;
  return std::exchange(inbox_, {.ending = ending});
}

void EngineLoop::TakeIn(Inbox inbox) {
  for (Arrival& arrival : inbox.arrivals) {
    const std::shared_ptr<TokenFeed> feed = std::move(arrival.submission.feed);
    const bool is_watched = arrival.submission.request.is_watched;
    const Result<SequenceId> id =
        engine_->Add(std::move(arrival.submission.request), feed.get());
    if (id.ok()) {
      open_.emplace(arrival.ticket, Open{*id, feed, is_watched});
      metrics_.CountStart();
      // Who has an answer finds it counted.
      feed->Accept([this] { metrics_.SetCounters(engine_->counters()); });
    } else {
      feed->Refuse(id.error());
      CountEnded(1, is_watched ? 1 : 0);
    }
  }
  for (const Ticket ticket : inbox.cancelled) {
    const auto found = open_.find(ticket);
    if (found != open_.end()) engine_->Cancel(found->second.id);
  }
}

void EngineLoop::Step() {
  const int64_t num_rows = engine_->counters().num_rows;
  const Result<bool> stepped = StepOf(*engine_);
  const int64_t num_landed = engine_->counters().num_rows - num_rows;
  if (num_landed > 0) metrics_.CountStep(num_landed);
  if (stepped.ok()) return;
  {
    const std::scoped_lock lock(mutex_);
    failure_ = stepped.error();
  }
  on_failure_(stepped.error());
}

void EngineLoop::Sweep() {
  LoopGauges gauges;
  int num_watched = 0;
  const auto num_erased = std::erase_if(open_, [&](const auto& each) {
    const Open& open = each.second;
    if (!open.feed->finished()) return false;
    num_watched += open.is_watched ? 1 : 0;
    return true;
  });
  for (const auto& [ticket, open] : open_) {
    ++(open.feed->started() ? gauges.num_running : gauges.num_waiting);
  }
  const KvCache& kv = engine_->kv();
  gauges.kv_usage = 1 - static_cast<double>(kv.num_free_pages()) /
                            static_cast<double>(kv.num_pages());
  const int64_t page_bytes =
      engine_->device_kv_bytes() / std::max<int64_t>(kv.num_pages(), 1);
  const int64_t num_idle = kv.prefixes().num_idle();
  gauges.device = {.held = (kv.num_pages() - kv.num_free_pages()) * page_bytes,
                   .idle = num_idle * page_bytes,
                   .free = (kv.num_free_pages() - num_idle) * page_bytes};
  const int64_t num_far = kv.num_host_pages() - kv.num_available_host_pages();
  gauges.host = {
      .held = num_far * page_bytes,
      .idle = (kv.num_available_host_pages() - kv.num_free_host_pages()) *
              page_bytes,
      .free = kv.num_free_host_pages() * page_bytes};
  gauges.num_device_pages = kv.num_pages();
  gauges.num_host_pages = kv.num_host_pages();
  gauges.kv_dtype = DtypeName(engine_->kv_dtype());
  gauges.engine = engine_->counters();
  gauges.steps = engine_->bounded_steps();
  gauges.step_time_margin = engine_->step_cost().margin;
  metrics_.SetGauges(gauges);
  if (num_erased > 0) CountEnded(static_cast<int>(num_erased), num_watched);
}

void EngineLoop::CountEnded(int num, int num_watched) {
  const std::scoped_lock lock(mutex_);
  num_open_ -= num;
  num_watched_ -= num_watched;
}

void EngineLoop::Run() {
  Sweep();  // The pools are told of before anyone asks.
  while (true) {
    Inbox inbox = AwaitWork();
    const bool ending = inbox.ending;
    TakeIn(std::move(inbox));
    if (ending) break;
    Sweep();
    if (!open_.empty()) Step();
    Sweep();
  }
  for (const auto& [ticket, open] : open_) engine_->Cancel(open.id);
}

}  // namespace winnow
