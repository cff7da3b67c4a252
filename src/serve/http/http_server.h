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
  // Total size of bodies above kLongBodyBytes that are being received, wait or
  // are in work.
  int64_t max_bodies_bytes = int64_t{256} << 20;
  int max_header_bytes = 16 << 10;
  int max_connections = 4096;
  // From a request's first byte to its end, as the handler counts it. A request
  // that is incomplete then is refused. 0: no limit.
  std::chrono::duration<double> request_time{0};
  // Limits from the first byte to the end of the headers, and for the body.
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{60'000};
  // Between two requests of one connection.
  std::chrono::milliseconds idle_time{60'000};
  // For a client that does not read its answer.
  std::chrono::milliseconds write_time{30'000};
  // A silent stream sends a ping at this interval.
  std::chrono::milliseconds ping_time{15'000};
};

struct HttpServerState;

// Owns the port, the connections and the threads that serve them. A connection
// is a coroutine that runs on one thread at a time. Only its sources know the
// HTTP library. A client that closes its side, even for writing alone, counts
// as disconnected, and its answer is destroyed.
class HttpServer {
 public:
  // Binds the port; 0 picks a free one. Accepts no connection yet. Fails if the
  // address is invalid or in use.
  static Result<std::unique_ptr<HttpServer>> Bind(const std::string& host,
                                                  int port,
                                                  const HttpLimits& limits);
  // Aborts all connections.
  ~HttpServer();

  int port() const;
  // Accepts connections, on `num_threads` threads. REQUIRES: called once; the
  // handler outlives this.
  void Start(HttpHandler& handler, int num_threads);
  // Accepts no more connections and returns when the last answer has been sent.
  // REQUIRES: started.
  void Drain();
  // As Drain, but waits no longer than `longest`. False if answers are left
  // then.
  bool DrainWithin(std::chrono::milliseconds longest);

 private:
  void LetNobodyIn();

  explicit HttpServer(std::unique_ptr<HttpServerState> state);

  std::unique_ptr<HttpServerState> state_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_SERVER_H_
