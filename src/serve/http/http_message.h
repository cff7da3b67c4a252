// HttpRequest and HttpAnswer: plain data between the HTTP server and its
// handler.
#ifndef WINNOW_SERVE_HTTP_HTTP_MESSAGE_H_
#define WINNOW_SERVE_HTTP_HTTP_MESSAGE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/body_bytes.h"

namespace winnow {

struct HttpRequest {
  // The arrival of the first byte.
  std::chrono::steady_clock::time_point arrived =
      std::chrono::steady_clock::now();
  std::string method;  // "POST"
  std::string path;    // without the query: "/v1/models"
  // Values of these headers; empty if absent.
  std::string host;
  std::string authorization;
  std::string api_key;     // X-Api-Key
  std::string request_id;  // X-Request-Id
  std::string origin;
  std::string fetch_site;     // Sec-Fetch-Site
  std::string asked_headers;  // Access-Control-Request-Headers
  std::string_view body;      // lies in body_bytes
  std::shared_ptr<const BodyBytes> body_bytes;  // null: no body
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpHead {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  // The body is a stream of events, in an unknown number of parts.
  bool streams = false;
};

// The next piece of an answer. The first piece that is not empty has the head.
// An answer without a stream is one piece.
struct HttpPart {
  std::optional<HttpHead> head = {};
  std::string body = {};
  bool last = false;

  bool empty() const { return !head && body.empty() && !last; }
};

// An answer in progress. The connection that sends it owns it and alone calls
// it. If the client disconnects, the destructor runs before the last part and
// ends all work for the answer.
class HttpAnswer {
 public:
  virtual ~HttpAnswer() = default;
  // Sets `wake`, which is called from any thread when Take may have more, and
  // never after the destructor. Called once, before Take.
  virtual void SetWake(std::function<void()> wake) = 0;
  // The part available now, perhaps empty; never waits. REQUIRES: the last part
  // has not been taken.
  virtual HttpPart Take() = 0;
  // The time at which Take has a part even without a wake; none: unknown.
  virtual std::optional<std::chrono::steady_clock::time_point> due() const = 0;
};

// An answer that is complete from the start.
class WholeAnswer : public HttpAnswer {
 public:
  WholeAnswer(HttpHead head, std::string body)
      : part_{.head = std::move(head), .body = std::move(body), .last = true} {}

  void SetWake(std::function<void()>) override {}
  HttpPart Take() override { return std::move(part_); }
  std::optional<std::chrono::steady_clock::time_point> due() const override {
    return std::nullopt;
  }

 private:
  HttpPart part_;
};

// Answers requests of several connections at once; any thread.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called when the headers are complete, before the body. An answer refuses
  // the request unread; null continues it.
  virtual std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest& head) = 0;
  virtual std::unique_ptr<HttpAnswer> Answer(HttpRequest request) = 0;
  // Refuses input that never becomes a request: too large (413, 431), not HTTP
  // (400), no capacity (503), or too late (504). `head`: the part that was
  // read.
  virtual std::unique_ptr<HttpAnswer> Refuse(const HttpRequest& head,
                                             int status,
                                             const std::string& message) = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_MESSAGE_H_
