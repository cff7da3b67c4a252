#include "load/http_exchanges.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>

namespace winnow {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
using BoostError = boost::system::error_code;
using Tcp = net::ip::tcp;

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr uint32_t kMaxHeaderBytes = 64 << 10;

std::string_view ViewOf(beast::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

struct HttpExchanges::Connection {
  explicit Connection(net::io_context& io) : stream(io) {}

  beast::tcp_stream stream;
  beast::flat_buffer buffer{2 * kReadBytes};
  bool used = false;  // an answer has come through it
};

HttpExchanges::HttpExchanges(net::io_context& io) : io_(io) {}

HttpExchanges::~HttpExchanges() = default;

Status HttpExchanges::Reach(const ServerUrl& url) {
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

std::unique_ptr<HttpExchanges::Connection> HttpExchanges::Take(bool unused) {
  if (unused || idle_.empty()) return std::make_unique<Connection>(io_);
  std::unique_ptr<Connection> connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

// A connection that has been idle may have ended meanwhile, which shows when
// it is used: another one then, once.
net::awaitable<ExchangeEnd> HttpExchanges::Run(
    const Message& message, Clock::time_point deadline,
    const ExchangeListener& listener) {
  ExchangeEnd end;
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::unique_ptr<Connection> connection = Take(attempt > 0);
    const bool was_used = connection->used;
    busy_.insert(connection.get());
    connection->stream.expires_at(deadline);
    end = co_await RunOn(*connection, message, deadline, listener);
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

net::awaitable<ExchangeEnd> HttpExchanges::RunOn(
    Connection& connection, const Message& message, Clock::time_point deadline,
    const ExchangeListener& listener) {
  ExchangeEnd end;
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

void HttpExchanges::Stop() {
  stopped_ = true;
  for (Connection* connection : busy_) connection->stream.cancel();
}

}  // namespace winnow
