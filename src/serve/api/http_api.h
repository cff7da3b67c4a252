// HttpApi: the server's routes over a CompletionService.
#ifndef WINNOW_SERVE_API_HTTP_API_H_
#define WINNOW_SERVE_API_HTTP_API_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/json_fields.h"
#include "serve/answer/deferred_answer.h"
#include "serve/answer/request_log.h"
#include "serve/api/completion_service.h"
#include "serve/http/http_message.h"
#include "serve/http/worker_pool.h"

namespace winnow {

struct ApiOptions {
  std::string api_key;  // empty: everyone may ask
  // Where it is set, by names of this server alone (allowed_host.h).
  std::optional<std::vector<std::string>> allowed_hosts = {};
  // Whose pages may ask (allowed_origin.h).
  std::vector<std::string> allowed_origins = {};
  std::string version;
  ServiceOptions service;
};

// Owns nothing that changes but counts; any thread. With a key, everything but
// /health, /ping and the page needs it. Every answer has an X-Request-Id, the
// client's own where it sent one of letters, digits and "._:-", and leaves a
// line in the log. What has a body is answered on threads of its own.
class HttpApi : public HttpHandler {
 public:
  // REQUIRES: the parts, and the log where it is not null, outlive this.
  // `num_workers`: threads for requests with bodies, at least 2; of long ones
  // they work on service.max_encoding_bytes at once.
  HttpApi(ApiOptions options, const ServiceParts& parts, RequestLog* log,
          int num_workers);

  std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest& head) override;
  std::unique_ptr<HttpAnswer> Answer(HttpRequest request) override;
  std::unique_ptr<HttpAnswer> Refuse(const HttpRequest& head, int status,
                                     const std::string& message) override;
  // From now on new completions are refused (503): the server ends.
  void Drain() { draining_ = true; }

 private:
  using Reply = std::unique_ptr<HttpAnswer>;
  // A request, and what will be said of it.
  struct Call : HttpRequest {
    std::shared_ptr<RequestRecord> record;
    bool is_draining = false;  // the server ended when it came
    // Of a POST, which a thread of the pool answers; outlives the call.
    DeferredWork* work = nullptr;
  };
  struct Route {
    std::string_view method;
    std::string_view path;  // what ends in "/{model}" takes any name there
    Reply (HttpApi::*answer)(const Call& call);
  };

  // What a browser asks before its page does.
  Reply Preflight(const Call& call);
  Reply Page(const Call& call);
  Reply Health(const Call& call);
  Reply Version(const Call& call);
  Reply MetricsText(const Call& call);
  Reply OpenApi(const Call& call);
  Reply Models(const Call& call);
  Reply Completions(const Call& call);
  Reply ChatCompletions(const Call& call);
  Reply Responses(const Call& call);
  Reply Messages(const Call& call);
  Reply CountTokens(const Call& call);
  Reply Tokenize(const Call& call);
  // Of what was tokenized, in the forms that were asked for.
  Reply Tokenized(const Call& call, const JsonFields& fields,
                  const CompletionRequest& request,
                  const std::vector<int32_t>& tokens);
  Reply Detokenize(const Call& call);
  Reply Embeddings(const Call& call);

  // By a thread of the pool: bodies of megabytes are read, encoded and made a
  // grammar of there, not by those that all connections share.
  Reply Defer(Call call, const Route& route);
  Reply Complete(const Call& call, Endpoint endpoint);
  // In the form of the route's clients.
  Reply Refusal(const Call& call, const ApiError& error);
  bool HasKey(const HttpRequest& head) const;
  // Null where it goes on: AnswerHead.
  Reply RefusalOfHead(const Call& call);
  // Null where nothing is there.
  const Route* RouteOf(const HttpRequest& head) const;
  std::string DescribeRoutes() const;
  Call CallOf(HttpRequest request);
  Reply Logged(const Call& call, Reply answer);
  Reply Success(const Call& call, std::string body, HttpHead head = {});

  const std::vector<Route> routes_;
  const std::string api_key_;
  const std::optional<std::vector<std::string>> allowed_hosts_;
  const std::vector<std::string> allowed_origins_;
  const std::string version_;
  const ServiceParts parts_;
  CompletionService service_;
  RequestLog* const log_;  // null: none
  const int64_t started_unix_s_;
  const std::string openapi_json_;
  std::atomic<uint64_t> num_requests_ = 0;
  std::atomic<bool> draining_ = false;
  WorkerPool workers_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_API_HTTP_API_H_
