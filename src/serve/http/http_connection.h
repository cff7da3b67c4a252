// HttpConnection: one client of an HttpServer, and the state that all clients
// share. Exposes the HTTP library, so only the server's sources include it.
#ifndef WINNOW_SERVE_HTTP_HTTP_CONNECTION_H_
#define WINNOW_SERVE_HTTP_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "serve/http/byte_capacity.h"
#include "serve/http/http_message.h"
#include "serve/http/http_reading.h"
#include "serve/http/http_server.h"
#include "serve/http/http_writing.h"

namespace winnow {

class HttpConnection;

// Shared by the server and its connections.
struct HttpServerState {
  explicit HttpServerState(const HttpLimits& http_limits)
      : limits(http_limits),
        bodies(std::make_shared<ByteCapacity>(BodyBytes::HeldBytesOf(
            static_cast<size_t>(http_limits.max_bodies_bytes)))) {}

  const HttpLimits limits;
  const std::shared_ptr<ByteCapacity> bodies;
  HttpHandler* handler = nullptr;
  std::vector<std::thread> threads;
  std::atomic<bool> draining = false;
  std::mutex mutex;
  std::condition_variable none_left;
  std::set<HttpConnection*> connections;  // guarded by mutex
  // Last, because its end destroys open connections.
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor{io};  // closed under mutex
};

// One client. Everything but Start and EndIfIdle runs on the stream's strand.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpServerState& server, boost::asio::ip::tcp::socket socket);
  ~HttpConnection();

  // Begins to serve. Separate from the constructor, which cannot create the
  // weak_ptr that the server's end needs.
  static void Start(const std::shared_ptr<HttpConnection>& self);
  // Ends the connection if it is between two requests. Any thread.
  void EndIfIdle();

 private:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using BoostError = boost::system::error_code;
  // More than the headers' limit, so that a body is read in large parts.
  static constexpr size_t kReadBytes = size_t{64} << 10;

  Awaitable<void> Run(std::shared_ptr<HttpConnection> self);
  Awaitable<bool> AwaitRequest();
  Awaitable<bool> ServeOne();
  Awaitable<std::unique_ptr<HttpAnswer>> Read(HttpParser& parser, bool* whole);
  Awaitable<BoostError> ReadBody(HttpParser& parser);
  Awaitable<bool> Send(HttpAnswer& answer);
  Awaitable<bool> SendPart(HttpPart part);
  Awaitable<bool> SendHead(HttpPart& part);
  Awaitable<bool> SendText(std::string_view text);
  // Waits until `due` at the latest, if set.
  Awaitable<void> AwaitWake(
      std::optional<std::chrono::steady_clock::time_point> due);
  Awaitable<void> Linger();
  // Null if the client has disconnected.
  std::unique_ptr<HttpAnswer> Refusal(const HttpParser& parser,
                                      BoostError error) const;
  HttpRequest Head(const HttpParser& parser) const;
  // Ends the reading of this request at `due` if it is incomplete then.
  void WatchTime(std::chrono::steady_clock::time_point due);
  void WatchForEnd();
  void LookForEnd();
  void Leave();
  void Wake();

  HttpServerState& server_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_{2 * kReadBytes};
  // Expires only for a ping. A cancellation means that there is more to send.
  boost::asio::steady_timer woken_timer_;
  boost::asio::steady_timer look_timer_;
  boost::asio::steady_timer late_timer_;
  // The arrival of the current request's first byte.
  std::chrono::steady_clock::time_point arrived_;
  bool late_ = false;
  uint64_t num_read_ = 0;  // requests
  bool idle_ = false;
  bool woken_ = false;
  bool gone_ = false;
  bool streaming_ = false;
  HttpFraming framing_;  // of the current answer
  uint64_t num_watches_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_CONNECTION_H_
