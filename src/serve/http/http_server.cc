#include "serve/http/http_server.h"

#include <pthread.h>
#include <sys/socket.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "serve/http/http_connection.h"

namespace winnow {
namespace {

namespace net = boost::asio;
using BoostError = boost::system::error_code;
using Tcp = net::ip::tcp;
template <typename T>
using Awaitable = net::awaitable<T>;

// For a descriptor, or memory, to come back.
constexpr std::chrono::milliseconds kPause{50};

// One more than may be let in is told so, and sent away.
void TurnAway(Tcp::socket& socket) {
  constexpr std::string_view kFull =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
      "Retry-After: 1\r\nConnection: close\r\n\r\n";
  const ssize_t told = send(socket.native_handle(), kFull.data(), kFull.size(),
                            MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)told;  // It may be gone.
}

// A handler that finds no memory ends, and what it was for ends in time; the
// others go on.
void RunConnections(net::io_context& io) {
  while (!io.stopped()) {
    try {
      io.run();
    } catch (const std::bad_alloc&) {
      continue;
    }
  }
}

// Its client sees the end of the connection where memory does not suffice.
void Begin(HttpServerState& server, Tcp::socket socket) {
  try {
    HttpConnection::Start(
        std::make_shared<HttpConnection>(server, std::move(socket)));
  } catch (const std::bad_alloc&) {
    return;
  }
}

Awaitable<void> Accept(HttpServerState& server) {
  while (!server.draining) {
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
    Begin(server, std::move(socket));
  }
}

// Accepting ends with the server alone; who accepts closes, as the acceptor is
// no other thread's to change.
Awaitable<void> AcceptAlways(HttpServerState& server) {
  while (!server.draining) {
    try {
      co_await Accept(server);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kPause);
    }
  }
  BoostError ignored;
  const std::scoped_lock lock(server.mutex);
  server.acceptor.close(ignored);
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
      [state = state_.get()]() -> Awaitable<void> {
        return AcceptAlways(*state);
      },
      net::detached);
  for (int i = 0; i < num_threads; ++i) {
    std::thread& thread = state_->threads.emplace_back(
        [state = state_.get()] { RunConnections(state->io); });
    pthread_setname_np(thread.native_handle(), "winnow-http");
  }
}

void HttpServer::LetNobodyIn() {
  HttpServerState& state = *state_;
  state.draining = true;
  const std::scoped_lock lock(state.mutex);
  // Whoever connects is refused from here on, and who accepts wakes up.
  if (state.acceptor.is_open()) {
    shutdown(state.acceptor.native_handle(), SHUT_RDWR);
  }
  for (HttpConnection* connection : state.connections) connection->EndIfIdle();
}

void HttpServer::Drain() {
  LetNobodyIn();
  std::unique_lock lock(state_->mutex);
  state_->none_left.wait(lock, [this] { return state_->connections.empty(); });
}

bool HttpServer::DrainWithin(std::chrono::milliseconds longest) {
  LetNobodyIn();
  std::unique_lock lock(state_->mutex);
  return state_->none_left.wait_for(
      lock, longest, [this] { return state_->connections.empty(); });
}

HttpServer::~HttpServer() {
  state_->draining = true;
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
}

}  // namespace winnow
