#include "serve/loop/engine_loop.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace winnow {
namespace {

// Where memory ends the library throws, and a backend's workspace as it does.
Result<Engine::Progress> StepOf(Engine& engine) {
  try {
    return engine.TryStep();
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorCode::kIo, "memory does not suffice for a step");
  }
}

using Time = std::optional<std::chrono::steady_clock::time_point>;
Time Sooner(const Time& a, const Time& b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// Nothing is left of what was not added.
Result<SequenceId> AddTo(Engine& engine, Request request, TokenFeed& feed) {
  try {
    return engine.Add(std::move(request), &feed);
  } catch (const std::bad_alloc&) {
    return MakeError(ErrorCode::kIo,
                     "memory does not suffice for the request, for now");
  }
}

}  // namespace

EngineLoop::EngineLoop(std::unique_ptr<Engine> engine, const LoopLimits& limits,
                       Metrics& metrics, LoopListeners listeners)
    : engine_(std::move(engine)),
      limits_(limits),
      max_watched_(engine_->max_watched_requests()),
      metrics_(metrics),
      listeners_(std::move(listeners)) {
  Sweep();  // The pools are told of before anyone asks.
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "winnow-engine");
  engine_->SetDiskListener([this] {
    {
      const std::scoped_lock lock(mutex_);
      inbox_.disk_moved = true;
    }
    came_.notify_one();
  });
}

EngineLoop::~EngineLoop() {
  engine_->SetDiskListener({});
  {
    const std::scoped_lock lock(mutex_);
    inbox_.ending = true;
  }
  came_.notify_one();
  thread_.join();
}

EngineLoop::Share& EngineLoop::Share::operator+=(const Share& other) {
  num += other.num;
  num_watched += other.num_watched;
  num_tokens += other.num_tokens;
  return *this;
}

EngineLoop::Share EngineLoop::ShareOf(
    const std::vector<Submission>& submissions) {
  Share share;
  for (const Submission& each : submissions) {
    share += {.num = 1,
              .num_watched = each.request.is_watched ? 1 : 0,
              .num_tokens = std::ssize(each.request.prompt)};
  }
  return share;
}

Status EngineLoop::CheckRoom(const Share& more) const {
  if (share_.num + more.num > limits_.max_open) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "requests that run or wait must be at most {} "
                     "(--max-num-seqs and --max-queued-requests), are {} and "
                     "{} more",
                     limits_.max_open, share_.num, more.num);
  }
  if (share_.num > 0 &&
      share_.num_tokens + more.num_tokens > limits_.max_open_tokens) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "prompts of requests that run or wait must be at most {} "
                     "tokens together, are {} and {} more",
                     limits_.max_open_tokens, share_.num_tokens,
                     more.num_tokens);
  }
  if (more.num_watched > max_watched_) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "answers that are watched must be at most {} "
                     "(--max-watched-requests), are {}",
                     max_watched_, more.num_watched);
  }
  if (more.num_watched > 0 &&
      share_.num_watched + more.num_watched > max_watched_) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "requests that are watched must be at most {} "
                     "(--max-watched-requests), are {} and {} more",
                     max_watched_, share_.num_watched, more.num_watched);
  }
  return Ok{};
}

Result<std::vector<Ticket>> EngineLoop::Submit(
    std::vector<Submission> submissions) {
  std::vector<Ticket> tickets;
  const Share more = ShareOf(submissions);
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return *failure_;
    RETURN_IF_ERROR(CheckRoom(more));
    // What takes memory comes first: all of them or none.
    tickets.reserve(submissions.size());
    inbox_.arrivals.reserve(inbox_.arrivals.size() + submissions.size());
    for (Submission& submission : submissions) {
      tickets.push_back(Ticket{++num_tickets_});
      inbox_.arrivals.push_back({tickets.back(), std::move(submission)});
    }
    share_ += more;
  }
  came_.notify_one();
  return tickets;
}

void EngineLoop::Cancel(Ticket ticket) {
  try {
    const std::scoped_lock lock(mutex_);
    inbox_.cancelled.push_back(ticket);
  } catch (const std::bad_alloc&) {
    return;  // Whose reader has left ends with its next token.
  }
  came_.notify_one();
}

bool EngineLoop::healthy() const {
  const std::scoped_lock lock(mutex_);
  return !failure_;
}

bool EngineLoop::AwaitRest(std::chrono::duration<double> longest) {
  std::unique_lock lock(mutex_);
  return rested_.wait_for(lock, longest,
                          [this] { return rests_ && inbox_.empty(); });
}

std::optional<std::chrono::steady_clock::time_point> EngineLoop::FirstDeadline()
    const {
  std::optional<std::chrono::steady_clock::time_point> first;
  for (const auto& [ticket, open] : open_) {
    if (!open.deadline) continue;
    if (!first || open.deadline->at < *first) first = open.deadline->at;
  }
  return first;
}

EngineLoop::Inbox EngineLoop::AwaitWork() {
  using enum Engine::Progress;
  const auto has_work = [this] {
    return progress_ == kGoesOn || !inbox_.empty();
  };
  // Who waits for the disk, and by then no more.
  const auto deadline = progress_ == kWaitsForDisk
                            ? Sooner(FirstDeadline(), engine_->disk_due())
                            : std::nullopt;
  std::unique_lock lock(mutex_);
  rests_ = progress_ == kNothingLeft;
  if (rests_ && inbox_.empty()) rested_.notify_all();
  if (deadline) {
    came_.wait_until(lock, *deadline, has_work);
  } else {
    came_.wait(lock, has_work);
  }
  rests_ = false;
  const bool ending = inbox_.ending;
  return std::exchange(inbox_, {.ending = ending});
}

// A failed engine is not asked any more: who came meanwhile is told why.
void EngineLoop::TakeIn(Inbox inbox) {
  const bool failed = !healthy();
  for (Arrival& arrival : inbox.arrivals) {
    const std::shared_ptr<TokenFeed> feed = std::move(arrival.submission.feed);
    const bool is_watched = arrival.submission.request.is_watched;
    const size_t num_tokens = arrival.submission.request.prompt.size();
    const std::optional<Deadline> deadline =
        arrival.submission.request.deadline;
    const Result<SequenceId> id =
        failed ? *failure_
               : AddTo(*engine_, std::move(arrival.submission.request), *feed);
    if (id.ok()) {
      open_.emplace(arrival.ticket,
                    Open{*id, feed, num_tokens, is_watched, deadline});
      metrics_.CountStart();
      // Who has an answer finds it counted.
      feed->Accept([this] { metrics_.SetCounters(engine_->counters()); });
    } else {
      feed->Refuse(id.error());
      CountEnded({.num = 1,
                  .num_watched = is_watched ? 1 : 0,
                  .num_tokens = static_cast<int64_t>(num_tokens)});
    }
  }
  for (const Ticket ticket : inbox.cancelled) {
    const auto found = open_.find(ticket);
    if (found != open_.end() && !failed) engine_->Cancel(found->second.id);
  }
}

void EngineLoop::Step() {
  const EngineCounters before = engine_->counters();
  const bool was_silent = engine_->disk_is_silent();
  const Result<Engine::Progress> stepped = StepOf(*engine_);
  progress_ = stepped.ok() ? *stepped : Engine::Progress::kNothingLeft;
  const EngineCounters after = engine_->counters();
  const int64_t num_landed = after.num_rows - before.num_rows;
  if (num_landed > 0) metrics_.CountStep(num_landed);
  if (after.num_given_up > before.num_given_up && listeners_.on_given_up) {
    listeners_.on_given_up(
        "nothing could run though requests waited: the oldest was given up, "
        "which is a bug of the server");
  }
  if (engine_->disk_is_silent() && !was_silent) TellSilence();
  if (stepped.ok()) return;
  {
    const std::scoped_lock lock(mutex_);
    failure_ = stepped.error();
  }
  TellFailure(stepped.error());
  listeners_.on_failure(stepped.error());
}

// Whom a failed device has not been told of: a step that found no memory left
// the engine as it was in its midst, and it is not asked any more.
void EngineLoop::TellFailure(const Error& error) {
  Completion failed;
  failed.reason = FinishReason::kError;
  try {
    failed.error = error;
    for (auto& [ticket, open] : open_) {
      if (open.feed->finished()) continue;
      open.is_told = true;
      open.feed->OnFinish(failed);
    }
  } catch (const std::bad_alloc&) {
    // They see the end of their connections.
  }
}

void EngineLoop::TellSilence() {
  if (!listeners_.on_disk_failure) return;
  listeners_.on_disk_failure(
      "the disk has ended nothing for a while that it had begun: until it "
      "does, nobody waits for pages of KV from it, and none wait to be "
      "written");
}

void EngineLoop::TellDiskFailures(bool is_last) {
  if (engine_->disk() == nullptr || !listeners_.on_disk_failure) return;
  const std::optional<Error>& end = engine_->disk()->end();
  if (end && !std::exchange(told_disk_end_, true)) {
    listeners_.on_disk_failure(NotKept(*end));
  }
  const DiskCounts& counts = engine_->disk()->store().counts();
  const auto line =
      is_last ? disk_failures_.Rest(counts)
              : disk_failures_.Note(counts, DiskFailures::Clock::now());
  if (line) listeners_.on_disk_failure(*line);
}

void EngineLoop::Sweep() {
  LoopGauges gauges;
  Share ended;
  std::erase_if(open_, [&](const auto& each) {
    const Open& open = each.second;
    if (!open.feed->finished() || open.is_told) return false;
    ended += {.num = 1,
              .num_watched = open.is_watched ? 1 : 0,
              .num_tokens = static_cast<int64_t>(open.num_tokens)};
    return true;
  });
  for (const auto& [ticket, open] : open_) {
    if (open.is_told) continue;
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
  if (const DiskPrefixes* disk = engine_->disk()) {
    const DiskStore& store = disk->store();
    const int64_t num_writing = store.num_writes_under_way();
    // What is lost while it is written is no piece any more.
    const int64_t num_pieces =
        std::max(store.index().num_pieces(), num_writing);
    gauges.disk = {
        .held = num_writing * page_bytes,
        .idle = (num_pieces - num_writing) * page_bytes,
        .free = (store.index().num_slots() - num_pieces) * page_bytes};
  }
  gauges.num_device_pages = kv.num_pages();
  gauges.num_host_pages = kv.num_host_pages();
  gauges.kv_dtype = DtypeName(engine_->kv_dtype());
  gauges.engine = engine_->counters();
  gauges.steps = engine_->meter().bounded_steps();
  gauges.step_time_margin = engine_->meter().cost().margin;
  metrics_.SetGauges(gauges);
  if (ended.num > 0) CountEnded(ended);
}

void EngineLoop::CountEnded(const Share& ended) {
  const std::scoped_lock lock(mutex_);
  share_.num -= ended.num;
  share_.num_watched -= ended.num_watched;
  share_.num_tokens -= ended.num_tokens;
}

void EngineLoop::Run() {
  while (true) {
    Inbox inbox = AwaitWork();
    const bool ending = inbox.ending;
    TakeIn(std::move(inbox));
    if (ending) break;
    Sweep();
    if (healthy()) Step();
    Sweep();
    TellDiskFailures(/*is_last=*/false);
  }
  TellDiskFailures(/*is_last=*/true);
  for (const auto& [ticket, open] : open_) engine_->Cancel(open.id);
}

}  // namespace winnow
