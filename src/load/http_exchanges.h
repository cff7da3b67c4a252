// Exchanges with one HTTP server, over connections that are kept.
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

// What comes of an exchange, told as it comes.
struct ExchangeListener {
  std::function<void(int status, std::string_view content_type)> head;
  std::function<void(std::string_view bytes,
                     std::chrono::steady_clock::time_point when)>
      body;
  // Asked behind each body: false hangs up.
  std::function<bool()> goes_on;
};

// How an exchange ended.
struct ExchangeEnd {
  boost::system::error_code error;
  bool connected = false;
  bool began = false;  // bytes of an answer have come
};

// What a coroutine awaits with; what fails is `error`.
inline auto Into(boost::system::error_code& error) {
  return boost::asio::redirect_error(boost::asio::use_awaitable, error);
}

// Owns the connections; all of it is on the thread that runs `io`.
class HttpExchanges {
 public:
  using Clock = std::chrono::steady_clock;
  using Message = boost::beast::http::request<boost::beast::http::string_body>;

  // REQUIRES: io outlives the exchanges.
  explicit HttpExchanges(boost::asio::io_context& io);
  ~HttpExchanges();

  // Looks up the server's name and connects once. Fails where either does not
  // succeed. REQUIRED before Run.
  Status Reach(const ServerUrl& url);
  // One exchange, over a connection that another has left where there is one.
  boost::asio::awaitable<ExchangeEnd> Run(const Message& message,
                                          Clock::time_point deadline,
                                          const ExchangeListener& listener);
  // Breaks off what is under way, and what is yet to come.
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
