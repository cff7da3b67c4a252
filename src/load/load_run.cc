#include "load/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/descriptor_limit.h"
#include "load/answer_reader.h"
#include "load/http_exchanges.h"

namespace winnow {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using BoostError = boost::system::error_code;
using Clock = std::chrono::steady_clock;
template <typename T>
using Awaitable = net::awaitable<T>;
using HttpMessage = HttpExchanges::Message;

// Of an answer that is no request's of the run: a list of models, a count.
constexpr size_t kMaxAskedBytes = 8 << 20;
// What may come behind the end of an answer before it is hung up on.
constexpr size_t kMaxBytesBehind = 64 << 10;
constexpr std::chrono::milliseconds kTickTime{100};

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double ThreadSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

// All of it but Stop is on the thread that runs `io_`.
class LoadRun::Client {
 public:
  explicit Client(const LoadRunOptions& options)
      : options_(options), due_timer_(io_), room_timer_(io_), tick_timer_(io_) {
    // A connection is a descriptor, and a shell grants few.
    RaiseDescriptorLimit(INT64_MAX);
  }

  Status Reach() { return exchanges_.Reach(options_.target.url); }
  Result<Answer> Ask(const std::string& method, const std::string& endpoint,
                     const std::string& body);
  LoadResult Run(std::vector<LoadRequest> requests,
                 const std::function<void(const LoadCounts&)>& tick);
  void Stop();

 private:
  HttpMessage MessageOf(const std::string& method, const std::string& endpoint,
                        std::string body) const;
  Awaitable<void> Dispatch();
  Awaitable<void> AwaitRoom();
  Awaitable<void> RunOne(LoadRequest request, LoadOutcome* outcome);
  Awaitable<void> Tick(const std::function<void(const LoadCounts&)>& tick);
  void FailOf(const ExchangeEnd& end, LoadOutcome* outcome) const;

  const LoadRunOptions options_;
  net::io_context io_{1};
  HttpExchanges exchanges_{io_};
  net::steady_timer due_timer_, room_timer_, tick_timer_;
  std::vector<LoadRequest> requests_;
  std::vector<LoadOutcome> outcomes_;
  LoadCounts counts_;
  size_t running_ = 0;
  bool dispatched_ = false;  // all that will be
  Clock::time_point start_;
};

HttpMessage LoadRun::Client::MessageOf(const std::string& method,
                                       const std::string& endpoint,
                                       std::string body) const {
  const LoadTarget& target = options_.target;
  HttpMessage message(http::string_to_verb(method), target.url.path + endpoint,
                      /*version=*/11);
  message.set(http::field::host, HostAndPort(target.url));
  message.set(http::field::user_agent, "winnow");
  if (!body.empty()) message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : target.headers) message.set(name, value);
  message.body() = std::move(body);
  message.prepare_payload();
  return message;
}

Result<LoadRun::Answer> LoadRun::Client::Ask(const std::string& method,
                                             const std::string& endpoint,
                                             const std::string& body) {
  Answer answer;
  ExchangeEnd end;
  const ExchangeListener listener = {
      .head = [&](int status, std::string_view) { answer.status = status; },
      .body = [&](std::string_view bytes,
                  Clock::time_point) { answer.body += bytes; },
      .goes_on = [&] { return answer.body.size() <= kMaxAskedBytes; }};
  const HttpMessage message = MessageOf(method, endpoint, body);
  // What costs a server nothing is not waited for as answers are.
  constexpr std::chrono::milliseconds kListTime{30 * 1000};
  const std::chrono::milliseconds timeout =
      method == "GET" ? std::min(options_.target.timeout, kListTime)
                      : options_.target.timeout;
  const auto run = [&]() -> Awaitable<void> {
    end = co_await exchanges_.Run(message, Clock::now() + timeout, listener);
  };
  net::co_spawn(io_, run, net::detached);
  io_.restart();
  io_.run();
  if (answer.body.size() > kMaxAskedBytes) {
    return MakeError(ErrorCode::kIo,
                     "{} {}: an answer must be at most {} bytes", method,
                     endpoint, kMaxAskedBytes);
  }
  if (!end.error) return answer;
  LoadOutcome outcome;
  FailOf(end, &outcome);
  return MakeError(ErrorCode::kIo, "{} {}: {}", method,
                   HostAndPort(options_.target.url) + endpoint,
                   outcome.fault_text);
}

// Of an exchange that broke off.
void LoadRun::Client::FailOf(const ExchangeEnd& end,
                             LoadOutcome* outcome) const {
  const BoostError& error = end.error;
  outcome->fault_text = error.message();
  if (exchanges_.stopped()) {
    outcome->fault = Fault::kInterrupted;
  } else if (error == beast::error::timeout) {
    outcome->fault = Fault::kTimedOut;
    outcome->fault_text = "no whole answer in time";
  } else if (error == net::error::connection_refused) {
    outcome->fault = Fault::kRefused;
  } else if (!end.connected) {
    outcome->fault = Fault::kNotReached;
  } else if (error == http::error::end_of_stream ||
             error == http::error::partial_message) {
    outcome->fault = Fault::kBrokenStream;
    outcome->fault_text = end.began ? "the connection ended in the answer"
                                    : "the connection ended before an answer";
  } else {
    const bool of_http =
        error.category() ==
        http::make_error_code(http::error::bad_version).category();
    outcome->fault = of_http ? Fault::kBadAnswer : Fault::kBrokenStream;
  }
}

Awaitable<void> LoadRun::Client::RunOne(LoadRequest request,
                                        LoadOutcome* outcome) {
  const LoadTarget& target = options_.target;
  const HttpMessage message =
      MessageOf("POST", target.endpoint, std::move(request.body));
  AnswerReader reader(target.style, target.streams, outcome);
  const Clock::time_point sent = Clock::now();
  outcome->due_s = request.due_s;
  outcome->sent_s = SecondsBetween(start_, sent);
  size_t num_behind = 0;
  const ExchangeListener listener = {
      .head = [&](int status,
                  std::string_view type) { reader.TakeHead(status, type); },
      .body =
          [&](std::string_view bytes, Clock::time_point when) {
            if (reader.done()) num_behind += bytes.size();
            reader.TakeBody(bytes, SecondsBetween(sent, when));
          },
      .goes_on = [&] { return num_behind <= kMaxBytesBehind; }};
  const ExchangeEnd end =
      co_await exchanges_.Run(message, sent + target.timeout, listener);
  const double seconds = SecondsBetween(sent, Clock::now());
  if (!end.error) {
    reader.End(seconds);
  } else if (!reader.done()) {
    outcome->latency_s = seconds;
    FailOf(end, outcome);
  }
  ++(outcome->answered() ? counts_.answered : counts_.failed);
  --running_;
  room_timer_.cancel();
  if (dispatched_ && running_ == 0) tick_timer_.cancel();
}

Awaitable<void> LoadRun::Client::AwaitRoom() {
  const auto most = static_cast<size_t>(options_.max_concurrency);
  while (most > 0 && running_ >= most && !exchanges_.stopped()) {
    BoostError cancelled;
    room_timer_.expires_at(Clock::time_point::max());
    co_await room_timer_.async_wait(Into(cancelled));
  }
}

Awaitable<void> LoadRun::Client::Dispatch() {
  for (size_t i = 0; i < requests_.size() && !exchanges_.stopped(); ++i) {
    const std::chrono::duration<double> due(requests_[i].due_s);
    due_timer_.expires_at(start_ +
                          std::chrono::duration_cast<Clock::duration>(due));
    // Waits also for what is past: what came meanwhile is read first.
    BoostError cancelled;
    co_await due_timer_.async_wait(Into(cancelled));
    co_await AwaitRoom();
    if (exchanges_.stopped()) break;
    ++counts_.sent;
    ++running_;
    net::co_spawn(io_, RunOne(std::move(requests_[i]), &outcomes_[i]),
                  net::detached);
  }
  dispatched_ = true;
  if (running_ == 0) tick_timer_.cancel();
}

Awaitable<void> LoadRun::Client::Tick(
    const std::function<void(const LoadCounts&)>& tick) {
  while (!dispatched_ || running_ > 0) {
    tick(counts_);
    BoostError cancelled;
    tick_timer_.expires_after(kTickTime);
    co_await tick_timer_.async_wait(Into(cancelled));
  }
}

LoadResult LoadRun::Client::Run(
    std::vector<LoadRequest> requests,
    const std::function<void(const LoadCounts&)>& tick) {
  requests_ = std::move(requests);
  outcomes_.resize(requests_.size());
  const double busy_before = ThreadSeconds();
  start_ = Clock::now();
  net::co_spawn(io_, Dispatch(), net::detached);
  net::co_spawn(io_, Tick(tick), net::detached);
  io_.restart();
  io_.run();
  LoadResult result;
  const double elapsed = SecondsBetween(start_, Clock::now());
  result.client_busy_share =
      elapsed > 0 ? (ThreadSeconds() - busy_before) / elapsed : 0;
  outcomes_.resize(counts_.sent);
  result.outcomes = std::move(outcomes_);
  for (const LoadOutcome& outcome : result.outcomes) {
    result.seconds =
        std::max(result.seconds, outcome.sent_s + outcome.latency_s);
  }
  return result;
}

void LoadRun::Client::Stop() {
  net::post(io_, [this] {
    exchanges_.Stop();
    due_timer_.cancel();
    room_timer_.cancel();
  });
}

LoadRun::LoadRun(std::unique_ptr<Client> client) : client_(std::move(client)) {}

LoadRun::~LoadRun() = default;

Result<std::unique_ptr<LoadRun>> LoadRun::Create(
    const LoadRunOptions& options) {
  auto client = std::make_unique<Client>(options);
  RETURN_IF_ERROR(client->Reach());
  return std::unique_ptr<LoadRun>(new LoadRun(std::move(client)));
}

Result<LoadRun::Answer> LoadRun::Ask(const std::string& method,
                                     const std::string& endpoint,
                                     const std::string& body) {
  return client_->Ask(method, endpoint, body);
}

LoadResult LoadRun::Run(std::vector<LoadRequest> requests,
                        const std::function<void(const LoadCounts&)>& tick) {
  return client_->Run(std::move(requests), tick);
}

void LoadRun::Stop() { client_->Stop(); }

}  // namespace winnow
