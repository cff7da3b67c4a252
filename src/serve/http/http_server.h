// HttpServer: HTTP/1.1 on one port, until it is told to end.
#ifndef WINNOW_SERVE_HTTP_HTTP_SERVER_H_
#define WINNOW_SERVE_HTTP_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/http/http_message.h"

namespace winnow {

struct HttpLimits {
  int64_t max_body_bytes = int64_t{32} << 20;
  // Of the bodies together that have more than kLongBodyBytes, while they are
  // received, wait, or are worked on.
  int64_t max_bodies_bytes = int64_t{256} << 20;
  int max_header_bytes = 16 << 10;
  int max_connections = 4096;
  // From a request's first byte to its end, as whoever answers it counts; who
  // has not sent it by then is told. 0: no end.
  std::chrono::duration<double> request_time{0};
  // From the first byte of a request to the end of its headers; then its body.
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{60'000};
  // Between two requests on one connection.
  std::chrono::milliseconds idle_time{60'000};
  // For a client that does not read what it is sent.
  std::chrono::milliseconds write_time{30'000};
  // A stream with nothing to say shows that it is alive.
  std::chrono::milliseconds ping_time{15'000};
};

struct HttpServerState;

// Owns the port, the connections and the threads that serve them; a connection
// is a coroutine that runs on one of them at a time. Nobody outside its source
// knows the library. A client that closes its side, also of writing alone,
// counts as gone: its answer is destroyed.
class HttpServer {
 public:
  // Takes the port, 0 for one that is free; nobody is let in yet. Fails where
  // the address is none, or taken.
  static Result<std::unique_ptr<HttpServer>> Bind(const std::string& host,
                                                  int port,
                                                  const HttpLimits& limits);
  // Ends all connections where they are.
  ~HttpServer();

  int port() const;
  // Lets clients in, on `num_threads` threads. REQUIRES: called once; the
  // handler outlives this.
  void Start(HttpHandler& handler, int num_threads);
  // Lets nobody in any more and returns when the last answer has been sent.
  // REQUIRES: started.
  void Drain();
  // The same, but for so long at most; false where answers are left then.
  bool DrainWithin(std::chrono::milliseconds longest);

 private:
  void LetNobodyIn();

  explicit HttpServer(std::unique_ptr<HttpServerState> state);

  std::unique_ptr<HttpServerState> state_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_SERVER_H_
