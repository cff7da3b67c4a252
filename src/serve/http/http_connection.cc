#include "serve/http/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

namespace winnow {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using BoostError = boost::system::error_code;
using Tcp = net::ip::tcp;
template <typename T>
using Awaitable = net::awaitable<T>;

// A request that is refused unread is drained for so long: a client that is
// still writing would lose the answer to a reset.
constexpr std::chrono::seconds kLingerTime{2};
// How often it is asked whether a client is gone that has sent more already, or
// a late reading told again to end that ended a read just then.
constexpr std::chrono::milliseconds kLookTime{250};
constexpr std::string_view kPing = ": ping\n\n";

}  // namespace

HttpConnection::HttpConnection(HttpServerState& server, Tcp::socket socket)
    : server_(server),
      stream_(std::move(socket)),
      woken_timer_(stream_.get_executor()),
      look_timer_(stream_.get_executor()),
      late_timer_(stream_.get_executor()) {}

HttpConnection::~HttpConnection() {
  const std::scoped_lock lock(server_.mutex);
  server_.connections.erase(this);
  if (server_.connections.empty()) server_.none_left.notify_all();
}

void HttpConnection::Start(const std::shared_ptr<HttpConnection>& self) {
  {
    const std::scoped_lock lock(self->server_.mutex);
    self->server_.connections.insert(self.get());
  }
  net::co_spawn(
      self->stream_.get_executor(),
      [self]() -> Awaitable<void> { return self->Run(self); }, net::detached);
}

void HttpConnection::EndIfIdle() {
  net::post(stream_.get_executor(), [self = weak_from_this()] {
    const auto alive = self.lock();
    if (alive && alive->idle_) alive->stream_.close();
  });
}

Awaitable<void> HttpConnection::Run(std::shared_ptr<HttpConnection> self) {
  try {
    bool more = true;
    while (more && !server_.draining) {
      more = co_await AwaitRequest();
      if (more) more = co_await ServeOne();
    }
  } catch (const std::bad_alloc&) {
    // Not even an error can be told: its client sees the end.
  }
  BoostError ignored;
  stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  stream_.close();
  (void)self;  // Kept alive until here.
}

// Until the first byte of a request: that may take as long as idle_time. Of one
// that was sent behind another the time begins when that is answered.
Awaitable<bool> HttpConnection::AwaitRequest() {
  int num_lines_left = kMaxEmptyLines;
  while (true) {
    arrived_ = std::chrono::steady_clock::now();
    const net::const_buffer received = buffer_.data();
    const BeforeRequest before = EmptyLinesIn(
        {static_cast<const char*>(received.data()), received.size()},
        &num_lines_left);
    buffer_.consume(before.num_bytes);
    if (before.has_begun) co_return true;
    idle_ = true;
    stream_.expires_after(server_.limits.idle_time);
    BoostError error;
    const auto space = buffer_.prepare(kReadBytes);
    const size_t num_read = co_await stream_.async_read_some(
        space, net::redirect_error(net::use_awaitable, error));
    idle_ = false;
    buffer_.commit(num_read);
    if (error || num_read == 0) co_return false;
  }
}

std::unique_ptr<HttpAnswer> HttpConnection::Refusal(const HttpParser& parser,
                                                    BoostError error) const {
  const auto refusal =
      late_ ? LateRefusal(server_.limits) : RefusalOf(error, server_.limits);
  if (!refusal) return nullptr;
  return server_.handler->Refuse(Head(parser), refusal->status,
                                 refusal->message);
}

HttpRequest HttpConnection::Head(const HttpParser& parser) const {
  HttpRequest head = HeadOf(parser);
  head.arrived = arrived_;
  return head;
}

void HttpConnection::WatchTime(std::chrono::steady_clock::time_point due) {
  late_timer_.expires_at(due);
  late_timer_.async_wait(
      [weak = weak_from_this(), reading = num_read_](BoostError error) {
        const auto self = weak.lock();
        if (error || !self || reading != self->num_read_) return;
        self->late_ = true;
        self->stream_.cancel();
        self->WatchTime(std::chrono::steady_clock::now() + kLookTime);
      });
}

// The answer, or null where the client is gone. `*whole`: nothing of the
// request is left unread.
Awaitable<std::unique_ptr<HttpAnswer>> HttpConnection::Read(HttpParser& parser,
                                                            bool* whole) {
  *whole = false;
  SetLimits(server_.limits, parser);
  parser.get().body() = BodyBytes(server_.bodies);
  BoostError error;
  stream_.expires_after(server_.limits.header_time);
  co_await http::async_read_header(
      stream_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
  if (error) co_return Refusal(parser, error);
  const HttpRequest head = Head(parser);
  if (const auto refusal = RefusalOfHead(parser)) {
    co_return server_.handler->Refuse(head, refusal->status, refusal->message);
  }
  std::unique_ptr<HttpAnswer> refused = server_.handler->AnswerHead(head);
  *whole = parser.is_done();
  if (refused) co_return refused;
  stream_.expires_after(server_.limits.body_time);
  if (!parser.is_done() && AwaitsContinue(parser)) {
    const bool sent = co_await SendText("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return nullptr;
    stream_.expires_after(server_.limits.body_time);
  }
  error = co_await ReadBody(parser);
  if (error) {
    // What is refused goes now, not when it has been told.
    parser.get().body() = BodyBytes();
    co_return Refusal(parser, error);
  }
  *whole = true;
  HttpRequest request = head;
  auto body = std::make_shared<BodyBytes>(std::move(parser.get().body()));
  request.body = body->view();
  request.body_bytes = std::move(body);
  co_return server_.handler->Answer(std::move(request));
}

Awaitable<BoostError> HttpConnection::ReadBody(HttpParser& parser) {
  // All that has come in one turn, however small its chunks: the library's own
  // reading takes a turn for each, or looks up at the end of the last.
  parser.eager(true);
  BoostError error;
  while (!parser.is_done()) {
    if (late_) co_return net::error::operation_aborted;
    if (buffer_.size() > 0) {
      buffer_.consume(parser.put(buffer_.data(), error));
      if (error && error != http::error::need_more) co_return error;
      if (parser.is_done()) break;
    }
    const size_t space =
        std::min(kReadBytes, buffer_.max_size() - buffer_.size());
    if (space == 0) co_return http::error::buffer_overflow;
    const size_t num_come = co_await stream_.async_read_some(
        buffer_.prepare(space), net::redirect_error(net::use_awaitable, error));
    buffer_.commit(num_come);
    if (error == net::error::eof) parser.put_eof(error);
    if (error) co_return error;
  }
  co_return BoostError();
}

// False where the connection is of no further use.
Awaitable<bool> HttpConnection::ServeOne() {
  HttpParser parser;
  bool whole = false;
  late_ = false;
  const auto most =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          server_.limits.request_time);
  if (most.count() > 0) WatchTime(arrived_ + most);
  std::unique_ptr<HttpAnswer> answer = co_await Read(parser, &whole);
  ++num_read_;
  late_timer_.cancel();
  if (answer == nullptr) co_return false;
  framing_ = FramingOf(parser, whole && !server_.draining);
  const bool sent = co_await Send(*answer);
  if (sent && !whole) co_await Linger();
  co_return (sent && framing_.keep_alive);
}

Awaitable<bool> HttpConnection::Send(HttpAnswer& answer) {
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
    const bool last = part.last || !framing_.has_body;
    const bool arrived = co_await SendPart(std::move(part));
    sent = arrived && last;
    if (!arrived || last) break;
  }
  ++num_watches_;
  look_timer_.cancel();
  BoostError ignored;
  stream_.socket().cancel(ignored);
  co_return sent;
}

Awaitable<bool> HttpConnection::SendPart(HttpPart part) {
  if (part.head) {
    streaming_ = part.head->streams;
    const bool arrived = co_await SendHead(part);
    if (!arrived || !streaming_ || !framing_.has_body) co_return arrived;
  }
  const std::string bytes = StreamBytesOf(part, framing_);
  // Nearly always the socket takes all of it, and no timer is needed.
  const ssize_t num_sent = send(stream_.socket().native_handle(), bytes.data(),
                                bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (num_sent == std::ssize(bytes)) co_return true;
  stream_.expires_after(server_.limits.write_time);
  const size_t begin = num_sent > 0 ? static_cast<size_t>(num_sent) : 0;
  const bool arrived = co_await SendText(std::string_view(bytes).substr(begin));
  stream_.expires_never();
  co_return arrived;
}

// And all of an answer that does not stream; its part is then used up.
Awaitable<bool> HttpConnection::SendHead(HttpPart& part) {
  HttpPart head = {.head = std::exchange(part.head, {})};
  const bool whole = !head.head->streams;
  if (whole) head.body = std::exchange(part.body, {});
  HttpResponse response = ResponseOf(std::move(head), framing_);
  framing_.keep_alive = response.keep_alive();
  BoostError error;
  stream_.expires_after(server_.limits.write_time);
  if (whole && framing_.has_body) {
    co_await http::async_write(stream_, response,
                               net::redirect_error(net::use_awaitable, error));
  } else {
    http::response_serializer<http::string_body> serializer(response);
    co_await http::async_write_header(
        stream_, serializer, net::redirect_error(net::use_awaitable, error));
  }
  co_return !error;
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
      const bool sent = co_await SendPart(std::move(ping));
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

}  // namespace winnow
