// HttpApi: the server's routes over a CompletionService.
#ifndef WINNOW_SERVE_HTTP_API_H_
#define WINNOW_SERVE_HTTP_API_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/completion_service.h"
#include "serve/http_message.h"

namespace winnow {

struct ApiOptions {
  std::string api_key;  // empty: everyone may ask
  std::string version;
  ServiceOptions service;
};

// Owns nothing that changes but counts; any thread. With a key, everything but
// /health needs it.
class HttpApi : public HttpHandler {
 public:
  // REQUIRES: the parts outlive this.
  HttpApi(ApiOptions options, const ServiceParts& parts);

  std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest& head) override;
  std::unique_ptr<HttpAnswer> Answer(HttpRequest request) override;
  std::unique_ptr<HttpAnswer> Refuse(const HttpRequest& head, int status,
                                     const std::string& message) override;
  // From now on new completions are refused (503): the server ends.
  void Drain() { draining_ = true; }

 private:
  using Reply = std::unique_ptr<HttpAnswer>;
  struct Route {
    std::string_view method;
    std::string_view path;
    Reply (HttpApi::*answer)(const HttpRequest& request);
  };

  Reply Health(const HttpRequest& request);
  Reply Version(const HttpRequest& request);
  Reply MetricsText(const HttpRequest& request);
  Reply Models(const HttpRequest& request);
  Reply Completions(const HttpRequest& request);
  Reply ChatCompletions(const HttpRequest& request);
  Reply Responses(const HttpRequest& request);
  Reply Messages(const HttpRequest& request);
  Reply CountTokens(const HttpRequest& request);
  Reply Tokenize(const HttpRequest& request);
  Reply Detokenize(const HttpRequest& request);
  Reply Embeddings(const HttpRequest& request);

  Reply Complete(const HttpRequest& request, Endpoint endpoint);
  // In the form of the route's clients.
  Reply Refusal(const HttpRequest& request, const ApiError& error);
  bool HasKey(const HttpRequest& head) const;
  Reply Success(std::string body, std::string type = "application/json");

  const std::vector<Route> routes_;
  const std::string api_key_;
  const std::string version_;
  const ServiceParts parts_;
  CompletionService service_;
  const int64_t started_unix_s_;
  std::atomic<bool> draining_ = false;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_HTTP_API_H_
