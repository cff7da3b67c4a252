#include "load/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <set>

#include "load/answer_reader.h"

namespace winnow {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using BoostError = boost::system::error_code;
using Tcp = net::ip::tcp;
using Clock = std::chrono::steady_clock;
template <typename T>
using Awaitable = net::awaitable<T>;
using HttpMessage = http::request<http::string_body>;

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr uint32_t kMaxHeaderBytes = 64 << 10;
// Of an answer that is no request's of the run: a list of models, a count.
constexpr size_t kMaxAskedBytes = 8 << 20;
// What may come behind the end of an answer before it is hung up on.
constexpr size_t kMaxBytesBehind = 64 << 10;
constexpr std::chrono::milliseconds kTickTime{100};

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// What a coroutine awaits with; what fails is `error`.
auto Into(BoostError& error) {
  return net::redirect_error(net::use_awaitable, error);
}

std::string_view ViewOf(beast::string_view text) {
  return {text.data(), text.size()};
}

// A connection is a descriptor, and a shell grants few.
void AllowDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
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

struct Connection {
  explicit Connection(net::io_context& io) : stream(io) {}

  beast::tcp_stream stream;
  beast::flat_buffer buffer{2 * kReadBytes};
  bool used = false;  // an answer has come through it
};

// What comes of an exchange, told as it comes.
struct Listener {
  std::function<void(int status, std::string_view content_type)> head;
  std::function<void(std::string_view bytes, Clock::time_point when)> body;
  // Asked behind each body: false hangs up.
  std::function<bool()> goes_on;
};

}  // namespace

// Owns the connections; all of it but Stop is on the thread that runs `io_`.
class LoadRun::Client {
 public:
  explicit Client(const LoadRunOptions& options)
      : options_(options), due_timer_(io_), room_timer_(io_), tick_timer_(io_) {
    AllowDescriptors();
  }

  Status Reach();
  Result<Answer> Ask(const std::string& method, const std::string& endpoint,
                     const std::string& body);
  LoadResult Run(std::vector<LoadRequest> requests,
                 const std::function<void(const LoadCounts&)>& tick);
  void Stop();

 private:
  // How an exchange ended.
  struct End {
    BoostError error;
    bool connected = false;
    bool began = false;  // bytes of an answer have come
  };

  HttpMessage MessageOf(const std::string& method, const std::string& endpoint,
                        std::string body) const;
  Awaitable<End> Exchange(const HttpMessage& message,
                          Clock::time_point deadline, const Listener& listener);
  Awaitable<End> ExchangeOn(Connection& connection, const HttpMessage& message,
                            Clock::time_point deadline,
                            const Listener& listener);
  std::unique_ptr<Connection> TakeConnection(bool unused);
  Awaitable<void> Dispatch();
  Awaitable<void> AwaitRoom();
  Awaitable<void> RunOne(LoadRequest request, LoadOutcome* outcome);
  Awaitable<void> Tick(const std::function<void(const LoadCounts&)>& tick);
  void FailOf(const End& end, LoadOutcome* outcome) const;

  const LoadRunOptions options_;
  net::io_context io_{1};
  Tcp::resolver::results_type endpoints_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::set<Connection*> busy_;
  net::steady_timer due_timer_, room_timer_, tick_timer_;
  std::vector<LoadRequest> requests_;
  std::vector<LoadOutcome> outcomes_;
  LoadCounts counts_;
  size_t running_ = 0;
  bool dispatched_ = false;  // all that will be
  bool stopped_ = false;
  Clock::time_point start_;
};

Status LoadRun::Client::Reach() {
  const ServerUrl& url = options_.target.url;
  BoostError error;
  Tcp::resolver resolver(io_);
  endpoints_ = resolver.resolve(url.host, fmt::format("{}", url.port), error);
  if (error) {
    return MakeError(ErrorCode::kIo, "no server at {}: {}", HostAndPort(url),
                     error.message());
  }
  auto connection = std::make_unique<Connection>(io_);
  net::connect(connection->stream.socket(), endpoints_, error);
  if (error) {
    return MakeError(ErrorCode::kIo, "no server at {}: {}", HostAndPort(url),
                     error.message());
  }
  return Ok{};
}

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

std::unique_ptr<Connection> LoadRun::Client::TakeConnection(bool unused) {
  if (unused || idle_.empty()) return std::make_unique<Connection>(io_);
  std::unique_ptr<Connection> connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

// A connection that has been idle may have ended meanwhile, which shows when
// it is used: another one then, once.
Awaitable<LoadRun::Client::End> LoadRun::Client::Exchange(
    const HttpMessage& message, Clock::time_point deadline,
    const Listener& listener) {
  End end;
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::unique_ptr<Connection> connection = TakeConnection(attempt > 0);
    const bool was_used = connection->used;
    busy_.insert(connection.get());
    connection->stream.expires_at(deadline);
    end = co_await ExchangeOn(*connection, message, deadline, listener);
    busy_.erase(connection.get());
    if (end.connected && !end.error && connection->used) {
      connection->stream.expires_never();
      idle_.push_back(std::move(connection));
    }
    const bool stale = was_used && end.error && !end.began &&
                       end.error != beast::error::timeout;
    if (!stale || stopped_) break;
  }
  co_return end;
}

Awaitable<LoadRun::Client::End> LoadRun::Client::ExchangeOn(
    Connection& connection, const HttpMessage& message,
    Clock::time_point deadline, const Listener& listener) {
  End end;
  beast::tcp_stream& stream = connection.stream;
  if (!connection.used) {
    co_await stream.async_connect(endpoints_, Into(end.error));
    if (end.error) co_return end;
    BoostError ignored;
    stream.socket().set_option(Tcp::no_delay(true), ignored);
  }
  end.connected = true;
  connection.used = false;  // Until the answer is whole.
  co_await http::async_write(stream, message, Into(end.error));
  if (end.error) co_return end;
  http::response_parser<http::string_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(UINT64_MAX);
  co_await http::async_read_header(stream, connection.buffer, parser,
                                   Into(end.error));
  end.began = parser.got_some();
  if (end.error) co_return end;
  listener.head(static_cast<int>(parser.get().result_int()),
                ViewOf(parser.get()[http::field::content_type]));
  while (!parser.is_done() && !stopped_) {
    co_await http::async_read_some(stream, connection.buffer, parser,
                                   Into(end.error));
    std::string& body = parser.get().body();
    if (!body.empty()) listener.body(body, Clock::now());
    body.clear();
    // A stream that never pauses never waits, and so is not timed out by Beast.
    if (!end.error && Clock::now() >= deadline) {
      end.error = beast::error::timeout;
    }
    if (end.error) co_return end;
    if (!listener.goes_on()) break;
  }
  connection.used = parser.is_done() && parser.get().keep_alive();
  if (stopped_) end.error = net::error::operation_aborted;
  co_return end;
}

Result<LoadRun::Answer> LoadRun::Client::Ask(const std::string& method,
                                             const std::string& endpoint,
                                             const std::string& body) {
  Answer answer;
  End end;
  const Listener listener = {
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
    end = co_await Exchange(message, Clock::now() + timeout, listener);
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
void LoadRun::Client::FailOf(const End& end, LoadOutcome* outcome) const {
  const BoostError& error = end.error;
  outcome->fault_text = error.message();
  if (stopped_) {
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
  const Listener listener = {
      .head = [&](int status,
                  std::string_view type) { reader.TakeHead(status, type); },
      .body =
          [&](std::string_view bytes, Clock::time_point when) {
            if (reader.done()) num_behind += bytes.size();
            reader.TakeBody(bytes, SecondsBetween(sent, when));
          },
      .goes_on = [&] { return num_behind <= kMaxBytesBehind; }};
  const End end = co_await Exchange(message, sent + target.timeout, listener);
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
  while (most > 0 && running_ >= most && !stopped_) {
    BoostError cancelled;
    room_timer_.expires_at(Clock::time_point::max());
    co_await room_timer_.async_wait(Into(cancelled));
  }
}

Awaitable<void> LoadRun::Client::Dispatch() {
  for (size_t i = 0; i < requests_.size() && !stopped_; ++i) {
    const std::chrono::duration<double> due(requests_[i].due_s);
    due_timer_.expires_at(start_ +
                          std::chrono::duration_cast<Clock::duration>(due));
    // Waits also for what is past: what came meanwhile is read first.
    BoostError cancelled;
    co_await due_timer_.async_wait(Into(cancelled));
    co_await AwaitRoom();
    if (stopped_) break;
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
    stopped_ = true;
    due_timer_.cancel();
    room_timer_.cancel();
    for (Connection* connection : busy_) connection->stream.cancel();
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
