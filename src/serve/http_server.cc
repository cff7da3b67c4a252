#include "serve/http_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "serve/http_reading.h"

namespace winnow {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using BoostError = boost::system::error_code;
using Tcp = net::ip::tcp;
template <typename T>
using Awaitable = net::awaitable<T>;

// More than the headers, so that a body is read in large pieces.
constexpr size_t kReadBytes = size_t{64} << 10;
// A request that is refused unread is drained for so long: a client that is
// still writing would lose the answer to a reset.
constexpr std::chrono::seconds kLingerTime{2};
// How often it is asked whether a client is gone that has sent more already.
constexpr std::chrono::milliseconds kLookTime{250};
constexpr std::string_view kPing = ": ping\n\n";

}  // namespace

class HttpConnection;

// Shared by the server and its connections.
struct HttpServerState {
  explicit HttpServerState(const HttpLimits& http_limits)
      : limits(http_limits),
        bodies(std::make_shared<ByteRoom>(
            static_cast<size_t>(http_limits.max_bodies_bytes))) {}

  const HttpLimits limits;
  const std::shared_ptr<ByteRoom> bodies;
  HttpHandler* handler = nullptr;
  std::vector<std::thread> threads;
  std::atomic<bool> draining = false;
  std::mutex mutex;
  std::condition_variable none_left;
  std::set<HttpConnection*> connections;  // by mutex
  // Last, as its end is that of connections still open.
  net::io_context io;
  Tcp::acceptor acceptor{io};
};

// One client. All but the constructor runs on the stream's strand.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpServerState& server, Tcp::socket socket)
      : server_(server),
        stream_(std::move(socket)),
        woken_timer_(stream_.get_executor()),
        look_timer_(stream_.get_executor()) {
    const std::scoped_lock lock(server_.mutex);
    server_.connections.insert(this);
  }
  ~HttpConnection() {
    const std::scoped_lock lock(server_.mutex);
    server_.connections.erase(this);
    if (server_.connections.empty()) server_.none_left.notify_all();
  }

  static void Start(const std::shared_ptr<HttpConnection>& self) {
    net::co_spawn(
        self->stream_.get_executor(),
        [self]() -> Awaitable<void> { return self->Run(self); }, net::detached);
  }
  // Any thread: ends it, if it is between two requests.
  void EndIfIdle() {
    net::post(stream_.get_executor(), [self = weak_from_this()] {
      const auto alive = self.lock();
      if (alive && alive->idle_) alive->stream_.close();
    });
  }

 private:
  Awaitable<void> Run(std::shared_ptr<HttpConnection> self);
  Awaitable<bool> AwaitRequest();
  Awaitable<bool> ServeOne();
  Awaitable<std::unique_ptr<HttpAnswer>> Read(HttpParser& parser, bool* whole);
  // False where there is no room for it.
  Awaitable<bool> ReadBody(HttpParser& parser, ByteRoom::Share& room,
                           BoostError* error);
  Awaitable<bool> Send(HttpAnswer& answer, bool keep_alive);
  Awaitable<bool> SendPart(HttpPart part, bool keep_alive);
  Awaitable<bool> SendText(std::string_view text);
  // Until `due` at the latest, where there is one.
  Awaitable<void> AwaitWake(
      std::optional<std::chrono::steady_clock::time_point> due);
  Awaitable<void> Linger();
  // Null where nobody is there to hear it.
  std::unique_ptr<HttpAnswer> Refusal(const HttpParser& parser,
                                      BoostError error) const;
  void WatchForEnd();
  void LookForEnd();
  void Leave();
  void Wake();

  HttpServerState& server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{2 * kReadBytes};
  // Never rings but for a ping: cancelled, it says that there is more to send.
  net::steady_timer woken_timer_;
  net::steady_timer look_timer_;
  bool idle_ = false;
  bool woken_ = false;
  bool gone_ = false;
  bool streaming_ = false;
  uint64_t num_watches_ = 0;
};

namespace {

http::response<http::string_body> ResponseOf(HttpPart& part, bool keep_alive) {
  HttpHead& head = *part.head;
  http::response<http::string_body> response;
  response.version(11);
  response.result(static_cast<unsigned>(head.status));
  response.set(http::field::server, "winnow");
  response.set(http::field::content_type, head.content_type);
  for (const auto& [name, value] : head.headers) response.set(name, value);
  response.keep_alive(keep_alive);
  if (head.streams) {
    response.set(http::field::cache_control, "no-cache");
    response.chunked(true);
  } else {
    response.body() = std::move(part.body);
    response.prepare_payload();
  }
  return response;
}

}  // namespace

Awaitable<void> HttpConnection::Run(std::shared_ptr<HttpConnection> self) {
  bool more = true;
  while (more && !server_.draining) {
    more = co_await AwaitRequest();
    if (more) more = co_await ServeOne();
  }
  BoostError ignored;
  stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  stream_.close();
  (void)self;  // Kept alive until here.
}

// Until the first byte of a request: that may take as long as idle_time.
Awaitable<bool> HttpConnection::AwaitRequest() {
  if (buffer_.size() > 0) co_return true;
  idle_ = true;
  stream_.expires_after(server_.limits.idle_time);
  BoostError error;
  const auto space = buffer_.prepare(kReadBytes);
  const size_t num_read = co_await stream_.async_read_some(
      space, net::redirect_error(net::use_awaitable, error));
  idle_ = false;
  buffer_.commit(num_read);
  co_return !error && num_read > 0;
}

std::unique_ptr<HttpAnswer> HttpConnection::Refusal(const HttpParser& parser,
                                                    BoostError error) const {
  const auto refusal = RefusalOf(error, server_.limits);
  if (!refusal) return nullptr;
  return server_.handler->Refuse(HeadOf(parser), refusal->status,
                                 refusal->message);
}

// The answer, or null where the client is gone. `*whole`: nothing of the
// request is left unread.
Awaitable<std::unique_ptr<HttpAnswer>> HttpConnection::Read(HttpParser& parser,
                                                            bool* whole) {
  *whole = false;
  SetLimits(server_.limits, parser);
  BoostError error;
  stream_.expires_after(server_.limits.header_time);
  co_await http::async_read_header(
      stream_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
  if (error) co_return Refusal(parser, error);
  const HttpRequest head = HeadOf(parser);
  if (EndsUnclearly(parser)) {
    co_return server_.handler->Refuse(
        head, 400, "Transfer-Encoding must be chunked, at its end");
  }
  std::unique_ptr<HttpAnswer> refused = server_.handler->AnswerHead(head);
  *whole = parser.is_done();
  if (refused) co_return refused;
  stream_.expires_after(server_.limits.body_time);
  if (!parser.is_done() &&
      beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool sent = co_await SendText("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return nullptr;
    stream_.expires_after(server_.limits.body_time);
  }
  auto room = std::make_shared<ByteRoom::Share>(server_.bodies);
  const bool has_room = co_await ReadBody(parser, *room, &error);
  // What is refused goes with its share of the room, not when it has been told.
  if (error || !has_room) std::string().swap(parser.get().body());
  if (error) co_return Refusal(parser, error);
  if (!has_room) {
    co_return server_.handler->Refuse(head, 503, FullMessage(server_.limits));
  }
  *whole = true;
  HttpRequest request = HeadOf(parser);
  request.room = std::move(room);
  request.body = std::move(parser.get().body());
  co_return server_.handler->Answer(std::move(request));
}

Awaitable<bool> HttpConnection::ReadBody(HttpParser& parser,
                                         ByteRoom::Share& room,
                                         BoostError* error) {
  // Else it returns at the end of many small chunks.
  parser.eager(false);
  while (true) {
    const size_t num_bytes = parser.get().body().size();
    if (num_bytes > kLongBodyBytes && !room.Grow(num_bytes)) co_return false;
    if (parser.is_done()) co_return true;
    co_await http::async_read_some(
        stream_, buffer_, parser,
        net::redirect_error(net::use_awaitable, *error));
    if (*error) co_return true;
  }
}

// False where the connection is of no further use.
Awaitable<bool> HttpConnection::ServeOne() {
  HttpParser parser;
  bool whole = false;
  std::unique_ptr<HttpAnswer> answer = co_await Read(parser, &whole);
  if (answer == nullptr) co_return false;
  const bool keep_alive =
      whole && parser.get().keep_alive() && !server_.draining;
  const bool sent = co_await Send(*answer, keep_alive);
  if (sent && !whole) co_await Linger();
  co_return (sent && keep_alive);
}

Awaitable<bool> HttpConnection::Send(HttpAnswer& answer, bool keep_alive) {
  woken_ = gone_ = streaming_ = false;
  answer.SetWake([self = weak_from_this(), strand = stream_.get_executor()] {
    net::post(strand, [self] {
      if (const auto alive = self.lock()) alive->Wake();
    });
  });
  WatchForEnd();
  bool sent = false;
  while (!gone_) {
    HttpPart part = answer.Take();
    if (part.empty()) {
      co_await AwaitWake(answer.due());
      continue;
    }
    const bool last = part.last;
    const bool arrived = co_await SendPart(std::move(part), keep_alive);
    sent = arrived && last;
    if (!arrived || last) break;
  }
  ++num_watches_;
  look_timer_.cancel();
  BoostError ignored;
  stream_.socket().cancel(ignored);
  co_return sent;
}

Awaitable<bool> HttpConnection::SendPart(HttpPart part, bool keep_alive) {
  if (part.head) {
    BoostError error;
    stream_.expires_after(server_.limits.write_time);
    streaming_ = part.head->streams;
    http::response<http::string_body> response = ResponseOf(part, keep_alive);
    if (!streaming_) {
      co_await http::async_write(
          stream_, response, net::redirect_error(net::use_awaitable, error));
      co_return !error;
    }
    http::response_serializer<http::string_body> serializer(response);
    co_await http::async_write_header(
        stream_, serializer, net::redirect_error(net::use_awaitable, error));
    if (error) co_return false;
  }
  std::string chunks;
  if (!part.body.empty()) {
    chunks = fmt::format("{:x}\r\n{}\r\n", part.body.size(), part.body);
  }
  if (part.last) chunks += "0\r\n\r\n";
  // Nearly always the socket takes all of it, and no timer is needed.
  const ssize_t num_sent = send(stream_.socket().native_handle(), chunks.data(),
                                chunks.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (num_sent == std::ssize(chunks)) co_return true;
  stream_.expires_after(server_.limits.write_time);
  const size_t begin = num_sent > 0 ? static_cast<size_t>(num_sent) : 0;
  const bool arrived =
      co_await SendText(std::string_view(chunks).substr(begin));
  stream_.expires_never();
  co_return arrived;
}

Awaitable<bool> HttpConnection::SendText(std::string_view text) {
  BoostError error;
  co_await net::async_write(stream_, net::buffer(text.data(), text.size()),
                            net::redirect_error(net::use_awaitable, error));
  co_return !error;
}

Awaitable<void> HttpConnection::AwaitWake(
    std::optional<std::chrono::steady_clock::time_point> due) {
  if (!woken_) {
    BoostError cancelled;
    const auto ping_at =
        std::chrono::steady_clock::now() + server_.limits.ping_time;
    const bool pings = streaming_ && (!due || ping_at < *due);
    woken_timer_.expires_at(due ? std::min(*due, ping_at) : ping_at);
    co_await woken_timer_.async_wait(
        net::redirect_error(net::use_awaitable, cancelled));
    if (!cancelled && !woken_ && pings) {
      HttpPart ping;
      ping.body = kPing;
      const bool sent = co_await SendPart(std::move(ping), true);
      if (!sent) gone_ = true;
    }
  }
  woken_ = false;
}

void HttpConnection::Wake() {
  woken_ = true;
  woken_timer_.cancel();
}

// While an answer is on its way nothing is read: what then comes is the end of
// the client, or its next request, which waits.
void HttpConnection::WatchForEnd() {
  stream_.socket().async_wait(
      Tcp::socket::wait_read,
      [self = shared_from_this(), watch = num_watches_](BoostError error) {
        if (error || watch != self->num_watches_) return;
        char byte = 0;
        const ssize_t num_peeked = recv(self->stream_.socket().native_handle(),
                                        &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (num_peeked > 0) return self->LookForEnd();
        // It was said to be readable for what has been read since.
        if (num_peeked < 0 && (errno == EAGAIN || errno == EINTR)) {
          return self->WatchForEnd();
        }
        self->Leave();
      });
}

// Behind bytes that wait the end is not to be read; it is known all the same.
void HttpConnection::LookForEnd() {
  look_timer_.expires_after(kLookTime);
  look_timer_.async_wait(
      [weak = weak_from_this(), watch = num_watches_](BoostError error) {
        const auto self = weak.lock();
        if (error || !self || watch != self->num_watches_) return;
        pollfd socket = {.fd = self->stream_.socket().native_handle(),
                         .events = POLLRDHUP,
                         .revents = 0};
        if (poll(&socket, 1, 0) > 0) return self->Leave();
        self->LookForEnd();
      });
}

void HttpConnection::Leave() {
  gone_ = true;
  Wake();
}

Awaitable<void> HttpConnection::Linger() {
  BoostError error;
  stream_.socket().shutdown(Tcp::socket::shutdown_send, error);
  stream_.expires_after(kLingerTime);
  while (!error) {
    buffer_.clear();
    const auto space = buffer_.prepare(kReadBytes);
    co_await stream_.async_read_some(
        space, net::redirect_error(net::use_awaitable, error));
  }
}

namespace {

// One more than may be let in is told so, and sent away.
void TurnAway(Tcp::socket& socket) {
  constexpr std::string_view kFull =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
      "Retry-After: 1\r\nConnection: close\r\n\r\n";
  const ssize_t told = send(socket.native_handle(), kFull.data(), kFull.size(),
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)told;  // It may be gone.
}

Awaitable<void> Accept(HttpServerState& server) {
  constexpr std::chrono::milliseconds kPause{50};
  while (server.acceptor.is_open()) {
    BoostError error;
    Tcp::socket socket = co_await server.acceptor.async_accept(
        net::make_strand(server.io),
        net::redirect_error(net::use_awaitable, error));
    if (error == net::error::operation_aborted) co_return;
    if (error) {
      // No descriptor is left, most likely; one will be.
      net::steady_timer pause(server.io, kPause);
      co_await pause.async_wait(net::redirect_error(net::use_awaitable, error));
      continue;
    }
    size_t num_connections = 0;
    {
      const std::scoped_lock lock(server.mutex);
      num_connections = server.connections.size();
    }
    if (num_connections >= static_cast<size_t>(server.limits.max_connections)) {
      TurnAway(socket);
      continue;
    }
    socket.set_option(Tcp::no_delay(true), error);
    HttpConnection::Start(
        std::make_shared<HttpConnection>(server, std::move(socket)));
  }
}

}  // namespace

HttpServer::HttpServer(std::unique_ptr<HttpServerState> state)
    : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::Bind(const std::string& host,
                                                     int port,
                                                     const HttpLimits& limits) {
  auto state = std::make_unique<HttpServerState>(limits);
  BoostError error;
  const net::ip::address address =
      net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--host must be an address (127.0.0.1, ::1, 0.0.0.0), is "
                     "\"{}\"",
                     host);
  }
  const Tcp::endpoint endpoint(address, static_cast<uint16_t>(port));
  Tcp::acceptor& acceptor = state->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error) {
    return MakeError(ErrorCode::kIo, "cannot listen on {} port {}: {}", host,
                     port, error.message());
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

int HttpServer::port() const {
  return state_->acceptor.local_endpoint().port();
}

void HttpServer::Start(HttpHandler& handler, int num_threads) {
  CHECK(state_->handler == nullptr && num_threads > 0, "threads={}",
        num_threads);
  state_->handler = &handler;
  net::co_spawn(
      state_->io,
      [state = state_.get()]() -> Awaitable<void> { return Accept(*state); },
      net::detached);
  for (int i = 0; i < num_threads; ++i) {
    std::thread& thread = state_->threads.emplace_back(
        [state = state_.get()] { state->io.run(); });
    pthread_setname_np(thread.native_handle(), "winnow-http");
  }
}

void HttpServer::Drain() {
  HttpServerState& state = *state_;
  state.draining = true;
  net::post(state.io, [&state] {
    BoostError ignored;
    state.acceptor.close(ignored);
  });
  std::unique_lock lock(state.mutex);
  for (HttpConnection* connection : state.connections) connection->EndIfIdle();
  state.none_left.wait(lock, [&state] { return state.connections.empty(); });
}

HttpServer::~HttpServer() {
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
}

}  // namespace winnow
