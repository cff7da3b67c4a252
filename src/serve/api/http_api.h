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
  std::string api_key;  // empty: no key is required
  // If set, requests must name this server (allowed_host.h).
  std::optional<std::vector<std::string>> allowed_hosts = {};
  // Origins whose pages may send requests (allowed_origin.h).
  std::vector<std::string> allowed_origins = {};
  std::string version;
  ServiceOptions service;
};

// Its only mutable state are counts; any thread. With a key, all routes but
// /health, /ping and the page require it. Every answer has an X-Request-Id and
// leaves a line in the log. The id is the client's if it consists of letters,
// digits and "._:-". Requests with a body are answered on worker threads.
class HttpApi : public HttpHandler {
 public:
  // REQUIRES: the parts, and the log if not null, outlive this. `num_workers`:
  // threads for requests with bodies, at least 2. Long bodies in work have at
  // most service.max_encoding_bytes together.
  HttpApi(ApiOptions options, const ServiceParts& parts, RequestLog* log,
          int num_workers);

  std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest& head) override;
  std::unique_ptr<HttpAnswer> Answer(HttpRequest request) override;
  std::unique_ptr<HttpAnswer> Refuse(const HttpRequest& head, int status,
                                     const std::string& message) override;
  // Refuses new completions with 503 from now on, because the server is ending.
  void Drain() { draining_ = true; }

 private:
  using Reply = std::unique_ptr<HttpAnswer>;
  // A request and its log record.
  struct Call : HttpRequest {
    std::shared_ptr<RequestRecord> record;
    bool is_draining = false;  // the server was ending when it arrived
    // For a POST, which a worker thread answers; outlives the call.
    DeferredWork* work = nullptr;
  };
  struct Route {
    std::string_view method;
    std::string_view path;  // a final "/{model}" matches any name
    Reply (HttpApi::*answer)(const Call& call);
  };

  // Answers a browser's preflight request.
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
  // The tokens of a text, in the requested forms.
  Reply Tokenized(const Call& call, const JsonFields& fields,
                  const CompletionRequest& request,
                  const std::vector<int32_t>& tokens);
  Reply Detokenize(const Call& call);
  Reply Embeddings(const Call& call);

  // Answers on a worker thread, because bodies of megabytes are parsed, encoded
  // and compiled to grammars there. Connections share their threads.
  Reply Defer(Call call, const Route& route);
  Reply Complete(const Call& call, Endpoint endpoint);
  // In the error format of the route's clients.
  Reply Refusal(const Call& call, const ApiError& error);
  bool HasKey(const HttpRequest& head) const;
  // Null if the request may continue: AnswerHead.
  Reply RefusalOfHead(const Call& call);
  // Null if no route matches.
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
  RequestLog* const log_;  // null: no log
  const int64_t started_unix_s_;
  const std::string openapi_json_;
  std::atomic<uint64_t> num_requests_ = 0;
  std::atomic<bool> draining_ = false;
  WorkerPool workers_;  // last
};

}  // namespace winnow

#endif  // WINNOW_SERVE_API_HTTP_API_H_
