// HttpExchanges: exchanges with one HTTP server over persistent connections.
#ifndef WINNOW_LOAD_HTTP_EXCHANGES_H_
#define WINNOW_LOAD_HTTP_EXCHANGES_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/server_url.h"

namespace winnow {

// Callbacks for the parts of an exchange.
struct ExchangeListener {
  std::function<void(int status, std::string_view content_type)> head;
  std::function<void(std::string_view bytes,
                     std::chrono::steady_clock::time_point when)>
      body;
  // Called after each body; false ends the exchange and its connection.
  std::function<bool()> goes_on;
};

// How an exchange ended.
struct ExchangeEnd {
  boost::system::error_code error;
  bool connected = false;
  bool began = false;  // bytes of an answer have arrived
};

// The completion token of a coroutine's await. A failure is stored in `error`.
inline auto Into(boost::system::error_code& error) {
  return boost::asio::redirect_error(boost::asio::use_awaitable, error);
}

// Owns the connections. Runs entirely on the thread that runs `io`.
class HttpExchanges {
 public:
  using Clock = std::chrono::steady_clock;
  using Message = boost::beast::http::request<boost::beast::http::string_body>;

  // REQUIRES: io outlives the exchanges.
  explicit HttpExchanges(boost::asio::io_context& io);
  ~HttpExchanges();

  // Resolves the server's name and connects once. Fails if either fails.
  // REQUIRED before Run.
  Status Reach(const ServerUrl& url);
  // Runs one exchange, over an idle connection if there is one.
  boost::asio::awaitable<ExchangeEnd> Run(const Message& message,
                                          Clock::time_point deadline,
                                          const ExchangeListener& listener);
  // Aborts all current and future exchanges.
  void Stop();
  bool stopped() const { return stopped_; }

 private:
  struct Connection;

  std::unique_ptr<Connection> Take(bool unused);
  boost::asio::awaitable<ExchangeEnd> RunOn(Connection& connection,
                                            const Message& message,
                                            Clock::time_point deadline,
                                            const ExchangeListener& listener);

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::resolver::results_type endpoints_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::set<Connection*> busy_;
  bool stopped_ = false;
};

}  // namespace winnow

#endif  // WINNOW_LOAD_HTTP_EXCHANGES_H_
