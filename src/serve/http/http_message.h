// What travels between the HTTP server and who answers: plain data.
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
  // Its first byte.
  std::chrono::steady_clock::time_point arrived =
      std::chrono::steady_clock::now();
  std::string method;  // "POST"
  std::string path;    // without the query: "/v1/models"
  // Values of these headers; empty where there are none.
  std::string host;
  std::string authorization;
  std::string api_key;     // X-Api-Key
  std::string request_id;  // X-Request-Id
  std::string origin;
  std::string fetch_site;     // Sec-Fetch-Site
  std::string asked_headers;  // Access-Control-Request-Headers
  std::string_view body;      // lies in body_bytes
  std::shared_ptr<const BodyBytes> body_bytes;  // null: there is none
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpHead {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers = {};
  // The body comes as events, in parts whose number nobody knows.
  bool streams = false;
};

// The next piece of an answer. The first that is not empty has the head; an
// answer that does not stream is one piece.
struct HttpPart {
  std::optional<HttpHead> head = {};
  std::string body = {};
  bool last = false;

  bool empty() const { return !head && body.empty() && !last; }
};

// An answer on its way, pulled by the connection that sends it, which owns it
// and alone calls it. Destroyed before its last part where the client is gone:
// what still goes on for it ends then.
class HttpAnswer {
 public:
  virtual ~HttpAnswer() = default;
  // `wake` is called when Take may have more, from any thread, and not after
  // the destructor. Called once, before Take.
  virtual void SetWake(std::function<void()> wake) = 0;
  // What there is now, perhaps nothing; never waits. REQUIRES: the last part
  // has not been taken.
  virtual HttpPart Take() = 0;
  // From then on Take has a part, whether anything wakes or not; none: who
  // knows.
  virtual std::optional<std::chrono::steady_clock::time_point> due() const = 0;
};

// An answer that is there at once.
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

// Answers requests, of several connections at once: any thread.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Asked when the headers are there, before the body is: an answer refuses
  // the request unread. Null: go on.
  virtual std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest& head) = 0;
  virtual std::unique_ptr<HttpAnswer> Answer(HttpRequest request) = 0;
  // For what never becomes a request: too large (413, 431), not HTTP (400), too
  // much for now (503), or not there in time (504).
  // `head`: as far as it was read.
  virtual std::unique_ptr<HttpAnswer> Refuse(const HttpRequest& head,
                                             int status,
                                             const std::string& message) = 0;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_HTTP_MESSAGE_H_
